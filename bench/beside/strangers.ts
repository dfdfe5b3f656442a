/** What strangers can make a build do: the heaviest file of a provider that is legal, and answers that mean harm. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { corpusOf } from '../../test/hostile/support/corpus.js'
import { startAgents } from '../agents.js'
import { ours } from '../ours.js'
import { startHeavyProviders } from '../providers.js'
import { type Bench, callersOf, isWhole, watchStops } from './bench.js'
import { inTurns } from './ledger.js'
import { end, prepare, until } from './program.js'

const egress = { allow_networks: ['127.0.0.0/8'] }

async function compareFiles({ ledger, programs, rounds }: Bench): Promise<void> {
  const { child, urls } = await startAgents(1, 1)
  const { server, hosts } = await startHeavyProviders(urls[0] as string)
  const upstreams = urls.map((url) => ({ id: 'agent', url, protocol: 'mcp' }))
  await inTurns(rounds, async (side) => {
    const place = await prepare(programs[side], {
      upstreams,
      egress: { ...egress, hosts },
      callers: callersOf(),
    })
    const running = await place.start()
    await until(() => isWhole(running, 1), 'a signal that the heaviest file allows')
    const what = 'start with the heaviest legal adagents.json, to served'
    ledger.note(side, what, 's', running.seconds())
    ledger.note(side, `${what}: CPU`, 's', running.cpuMs() / 1_000)
    await running.stop()
    await place.remove()
  })
  await end(child)
  server.close()
}

async function compareAnswers({ ledger, programs, rounds }: Bench): Promise<void> {
  const script = fileURLToPath(new URL('../hostile-strangers.js', import.meta.url))
  const strangers = ours(spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] }))
  const [line] = (await once(strangers.stdout, 'data')) as [Buffer]
  const origin = line.toString().trim()
  const upstreams = corpusOf().map(({ name, transport }) => ({
    ...{ id: name, url: `${origin}/${name}/${transport}`, protocol: transport },
  }))
  const config = { upstreams, egress, defaults: { refresh: '1h', timeout: '5s' }, callers: callersOf() }
  await inTurns(rounds, async (side) => {
    const place = await prepare(programs[side], config)
    const running = await place.start()
    const ended = watchStops(running.url)
    await running.quiet()
    const what = `${upstreams.length} agents whose answers mean harm, each read once`
    ledger.note(side, `${what}: CPU`, 's', running.cpuMs() / 1_000)
    ledger.note(side, `${what}: longest wait of a client`, 'ms', await ended())
    ledger.note(side, `${what}: memory after it`, 'MB', running.residentMb())
    await running.stop()
    await place.remove()
  })
  await end(strangers)
}

/** All rows of strangers. */
export async function compareStrangers(bench: Bench): Promise<void> {
  await compareFiles(bench)
  await compareAnswers(bench)
}
