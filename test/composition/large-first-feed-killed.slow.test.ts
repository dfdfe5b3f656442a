/**
 * The first feed of more rows than one builder is given, by processes that are killed while they read and in the very middle of the
 * build, and by two at once.
 */
import { hash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { callTool } from '../support/call-tool.js'
import { startCommand } from '../support/command.js'
import type { Answer } from '../support/federation.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import {
  AGENTS,
  type Ask,
  OWN,
  PROVIDED,
  SIGNALS,
  seen,
  startLarge,
  WHOLESALE,
} from './support/large-world.js'
import { lacks, total, until } from './support/scripted.js'
import { PROVIDERS } from './support/scripted-strangers.js'

const LONGEST_MS = 280_000
const KEY = 'the-key'
const HELD_BUILD = new URL('./support/held-build.js', import.meta.url)

const whole = (ask: Ask) =>
  until(
    () => ask(WHOLESALE),
    (answer) => total(answer) === SIGNALS && lacks(answer) === '',
    LONGEST_MS,
  )

test('a program that is killed in the middle of its first feed makes the same one, and so do two on one database', {
  skip: NO_POSTGRES,
}, async (t) => {
  const { world, ask, settings, offer } = await startLarge(t)
  offer(OWN)
  await world.start(settings)
  const expected = await seen(ask)
  await world.stop()
  const folder = await temporaryFolder(t)

  /** A process with its storage there. */
  async function served(storage: string, environment: Record<string, string> = {}) {
    const file = join(folder, `${hash('sha256', storage)}.json`)
    const config = {
      listen: { port: 0 },
      upstreams: world.agents.map(({ url }, at) => ({ id: `a${at}`, url, protocol: 'mcp' })),
      egress: {
        allow_networks: ['127.0.0.0/8'],
        hosts: Object.fromEntries(PROVIDERS.map((domain) => [domain, world.providers.running.origin])),
      },
      callers: { anonymous: 'metadata', keys: [{ id: 'reader', token_sha256: hash('sha256', KEY, 'hex') }] },
      storage: { url: storage, key: 'a storage key of the tests, long enough' },
    }
    await writeFile(file, JSON.stringify(config))
    const running = startCommand(['serve', '--config', file], environment, { longestMs: LONGEST_MS })
    t.teardown(() => running.process.kill('SIGKILL'))
    const ask = async (input: object) => {
      const [, url = ''] = await running.printed(/in one feed at (http:\/\/127\.0\.0\.1:\d+)/)
      return await callTool<Answer>(url, 'get_signals', input, KEY)
    }
    return { running, ask }
  }

  async function killed({ running }: Awaited<ReturnType<typeof served>>) {
    running.process.kill('SIGKILL')
    await running.finished
  }

  const own = `file:${join(folder, 'state')}`
  const calls = () => world.agents.reduce((sum, agent) => sum + agent.calls(), 0)
  const before = calls()
  const reading = await served(own)
  const pages = (AGENTS * (OWN + PROVIDERS.length * PROVIDED)) / 100
  await until(
    async () => calls() - before,
    (count) => count >= pages * 0.3, // none of the agents was read to its end then
    LONGEST_MS,
  )
  await killed(reading)
  // The first builder waits for the keys that the second finds; both halves are built, and not joined yet.
  for (const order of ['1', '2']) {
    const building = await served(own, { NODE_OPTIONS: `--import=${HELD_BUILD}`, HELD_ORDER: order })
    // Where an agent took longer than a first feed waits, the feed came without its rows, and this order may never be given.
    await Promise.race([building.running.printed(/an order to a builder is held back/), whole(building.ask)])
    await killed(building)
  }
  const last = await served(own)
  await whole(last.ask)
  t.same(await seen(last.ask), expected, 'after three kills')
  for (let at = PROVIDED; at < OWN; at += 499) {
    const question = { signal_spec: `Own ${at}`, pagination: { max_results: 20 } }
    // Until the index of the feed is there, a question says what its answer lacks.
    const { signals = [] } = await until(
      () => last.ask(question),
      (answer) => lacks(answer) === '',
      LONGEST_MS,
    )
    t.equal(signals.filter(({ name }) => name === `Own ${at}`).length, AGENTS, `Own ${at} is found`)
  }
  await killed(last)

  const storage = await shared(t)
  if (!storage) return
  const both = [await served(storage.url), await served(storage.url)]
  for (const { ask } of both) {
    await whole(ask)
    t.same(await seen(ask), expected, 'one of two')
  }
  for (const one of both) await killed(one)
})
