/** What a build costs before there is anything to serve: its package, its start, its commands. */
import { spawnSync } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Bench, callersOf, isWhole } from './bench.js'
import { inTurns, SIDES } from './ledger.js'
import { type Program, prepare, runCommand, until } from './program.js'

const TURNS = 5 // short ones, so more of them

/** MB of all files below a folder. */
async function megabytesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(
    files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size),
  )
  return sizes.reduce((sum, size) => sum + size, 0) / 1e6
}

/** What a checkout would publish as it stands: MB as it travels and as it lies on a disk, alone and with the packages that it needs. */
async function packed({ folder: checkout }: Program) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-packed-'))
  const npm = (cwd: string, ...args: string[]) => spawnSync('npm', args, { cwd, encoding: 'utf8' })
  const { stdout } = npm(checkout, 'pack', '--json', '--ignore-scripts', '--pack-destination', folder)
  const [{ filename, size, unpackedSize }] = JSON.parse(stdout) as [
    { filename: string; size: number; unpackedSize: number },
  ]
  await writeFile(join(folder, 'package.json'), '{ "private": true }')
  const options = ['--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline']
  const { stderr, status } = npm(folder, 'install', ...options, join(folder, filename))
  if (status !== 0) throw new Error(`${checkout} cannot be installed: ${stderr}`)
  const modules = join(folder, 'node_modules')
  const { packages } = JSON.parse(await readFile(join(modules, '.package-lock.json'), 'utf8')) as {
    packages: object
  }
  const installed = { megabytes: await megabytesIn(modules), packages: Object.keys(packages).length }
  await rm(folder, { recursive: true, force: true })
  return { megabytes: size / 1e6, unpackedMegabytes: unpackedSize / 1e6, installed }
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
    const { megabytes, unpackedMegabytes, installed } = await packed(programs[side])
    ledger.note(side, 'the package, packed', 'MB', megabytes)
    ledger.note(side, 'the package, unpacked', 'MB', unpackedMegabytes)
    ledger.note(side, 'installed, with the packages that it needs', 'MB', installed.megabytes)
    ledger.note(side, 'packages that are installed with it, itself counted', 'packages', installed.packages)
  }
}
