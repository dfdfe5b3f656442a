/** What a build costs before there is anything to serve: its package, its start, its commands. */
import { spawnSync } from 'node:child_process'
import { type Bench, callersOf, isWhole } from './bench.js'
import { inTurns, SIDES } from './ledger.js'
import { type Program, prepare, runCommand, until } from './program.js'

const TURNS = 5 // short ones, so more of them

/** Of what a checkout would publish as it stands, MB: as it travels, and as it lies on a disk. */
function packed({ folder }: Program): { size: number; unpackedSize: number } {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts']
  const { stdout } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' })
  const [{ size, unpackedSize }] = JSON.parse(stdout) as [{ size: number; unpackedSize: number }]
  return { size: size / 1e6, unpackedSize: unpackedSize / 1e6 }
}

/** A server without upstreams, started and left alone; a configuration checked; the package. */
export async function compareStarts({ ledger, programs }: Bench): Promise<void> {
  await inTurns(TURNS, async (side) => {
    const place = await prepare(programs[side], { callers: callersOf() })
    const running = await place.start()
    const first = await until(() => isWhole(running, 0), 'an empty feed')
    ledger.note(side, 'the first question after a start', 'ms', first * 1_000)
    ledger.note(side, 'start with nothing configured, to served', 's', running.seconds())
    ledger.note(side, 'start with nothing configured: CPU', 's', running.cpuMs() / 1_000)
    await running.quiet()
    ledger.note(side, 'memory with nothing configured', 'MB', running.residentMb())
    await running.stop()
    const { seconds, cpuMs } = await runCommand(programs[side], ['check', '--config', place.file])
    ledger.note(side, '`tributary check` of that configuration', 's', seconds)
    ledger.note(side, '`tributary check`: CPU', 's', cpuMs / 1_000)
    await place.remove()
  })
  for (const side of SIDES) {
    const { size, unpackedSize } = packed(programs[side])
    ledger.note(side, 'the package, packed', 'MB', size)
    ledger.note(side, 'the package, unpacked', 'MB', unpackedSize)
  }
}
