import { hash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { CHECKPOINTS, type Checkpoint } from '../../src/activation/delivery.js'
import { startSandbox } from '../../src/sandbox/world.js'
import type { Entry } from '../../src/store/ledger.js'
import { onEveryStorage, type Storage } from '../store/support/storages.js'
import { runCommand } from '../support/command.js'
import { until } from '../support/upstream-world.js'
import { openHeldLine } from './support/held-line.js'
import { TRADE_DESK } from './support/parts.js'
import { type Child, type Fields, prepareTributary } from './support/tributary-child.js'
import { asks, first, key, losingAnswers, openLive, startWorld } from './support/world.js'

const DOMAIN = 'signals.northwind.example'
const TOKEN = 'a-buyer-key'

/** What each kill meets: requests at a checkpoint of ours, and others where only the outside sees them. */
const DEATHS = [
  ['said', 'planned'], // the caller has the answer
  ['asked', 'intended'], // the upstream does not have it yet
  ['acted', 'answered'], // the upstream did it, its answer is on the way
  ['settled'],
  ['concluded'],
] as const
type Step = (typeof DEATHS)[number][number]
const NOT_DONE: readonly Step[] = ['planned', 'asked', 'intended']
const REPEATED_AT_ONCE = 4 // by a Tributary that recovers

const isCheckpoint = (step: Step): step is Step & Checkpoint =>
  (CHECKPOINTS as readonly string[]).includes(step)

type Request = { idempotency_key: string; action: string } & Record<string, unknown>

/** A sandbox, the way to its agent, and what a whole Tributary in another process runs on. */
async function startGround(t: Test, storage: Storage) {
  const sandbox = await startSandbox({ signals: 48 })
  const { northwind, meridian } = sandbox.agents
  const line = await openHeldLine(sandbox.hosts[DOMAIN] as string)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-crash-'))
  t.teardown(async () => {
    await line.close()
    await sandbox.close()
    await rm(folder, { recursive: true, force: true })
  })
  const configuration = JSON.stringify({
    listen: { port: 0 },
    upstreams: [
      { id: 'northwind', url: northwind.url, protocol: 'mcp' },
      { id: 'meridian', url: meridian.url, protocol: 'mcp' },
    ],
    defaults: { concurrency: 16 }, // requests that are held take their places
    egress: { hosts: { ...sandbox.hosts, [DOMAIN]: line.origin } },
    callers: {
      keys: [{ id: 'buyer', token_sha256: hash('sha256', TOKEN, 'hex'), destinations: [TRADE_DESK] }],
    },
    storage: { url: storage.url },
  })
  const file = join(folder, 'config.json')
  await writeFile(file, configuration)
  const store = await openLive(t, storage.url)
  let next = prepare()

  function prepare() {
    const prepared = prepareTributary(['--no-opt']) // it lives for a second: faster code is not worth compiling
    t.teardown(prepared.kill)
    return prepared
  }

  return {
    line,
    start(hold?: Checkpoint): Child {
      const child = next.run(configuration, TOKEN, hold)
      next = prepare()
      return child
    },
    done: () => northwind.activations() + northwind.deactivations(),
    counts: () => [northwind.activations() + meridian.activations(), northwind.deactivations()],
    /** Where replicas share a storage, time ends a dead process's leases. */
    async afterDeath() {
      if (storage.server) await store.calls.endLeases()
    },
    /** The ledger's entries of requests, once none of them is pending. */
    async entriesOf(requests: readonly Request[]): Promise<Entry[]> {
      const read = async ({ idempotency_key: used }: Request) => {
        const [call] = await store.calls.ofKey('buyer', used, 0)
        return call && (await store.ledger.get(call.id))
      }
      for (const end = Date.now() + 10_000; ; await wait(10)) {
        const entries = (await Promise.all(requests.map(read))).filter((entry) => entry !== undefined)
        if (entries.every(({ outcome }) => outcome !== 'pending') || Date.now() > end) return entries
      }
    },
    /** The whole ledger as an operator exports it. */
    async exported(): Promise<Entry[]> {
      const { out } = await runCommand(['ledger', '--config', file, '--json'])
      return out.split('\n').flatMap((text) => (text === '' ? [] : (JSON.parse(text) as Entry)))
    },
  }
}

/** Requests that activate signals at an upstream, as a caller of this Tributary finds them. */
async function findings(child: Child, upstream: string): Promise<Record<string, unknown>[]> {
  const { signals } = await child.call('mcp', 'get_signals', {
    discovery_mode: 'wholesale',
    destinations: [TRADE_DESK],
    pagination: { max_results: 100 },
  })
  return signals.flatMap(({ signal_agent_segment_id, pricing_options = [], ext }: Fields) => {
    const offer = ext.tributary.offers.find((one: Fields) => one.upstream === upstream)
    const option = pricing_options.find((one: Fields) =>
      one.pricing_option_id.startsWith(`${offer?.handle}.`),
    )
    if (!offer?.deployments.includes('platform:the-trade-desk') || !option) return []
    return [
      { signal_agent_segment_id, pricing_option_id: option.pricing_option_id, destinations: [TRADE_DESK] },
    ]
  })
}

const activate = (request: object): Request => ({ ...request, action: 'activate', idempotency_key: key() })

function deactivate({ pricing_option_id: _, ...request }: Record<string, unknown>): Request {
  return { ...request, action: 'deactivate', idempotency_key: key() }
}

onEveryStorage('a kill at any step neither loses an activation nor makes two', async (t, storage) => {
  t.setTimeout(60_000) // each kill starts a process
  const ground = await startGround(t, storage)
  const { line, done } = ground
  let child = ground.start()
  await child.opened()
  const found = await findings(child, 'northwind')
  const pools = [0, 4].map((at) => ({ off: found.slice(at, at + 2), on: found.slice(at + 2, at + 4) }))
  const send = (request: object, index: number): Promise<Fields> =>
    child.call(index % 2 === 0 ? 'mcp' : 'a2a', 'activate_signal', request)
  for (const { on } of pools)
    for (const [index, request] of on.entries()) await send(activate(request), index)

  const { status, task_id } = await send(activate(first(await findings(child, 'meridian'))), 0)
  t.equal(status, 'submitted', 'this upstream works on it while we are killed')

  /** Sends the requests and resolves when all of them are at the step; `answers` are there when the process is not. */
  async function bring(requests: readonly Request[], step: Step) {
    if (isCheckpoint(step)) await child.hold(step)
    if (step === 'asked' || step === 'acted') line.hold(step === 'asked' ? 'there' : 'back')
    const answers = Promise.allSettled(requests.map(send))
    if (isCheckpoint(step)) await child.held(requests.length)
    else if (step === 'said') await answers
    else await until('the line holds them', () => line.held() === requests.length)
    line.hold(undefined)
    return { step, requests, answers }
  }

  for (const steps of DEATHS) {
    const before = done()
    const batches: Awaited<ReturnType<typeof bring>>[] = []
    for (const [index, step] of steps.entries()) {
      const { on, off } = pools[index] as (typeof pools)[number]
      batches.push(await bring([...off.map(activate), ...on.map(deactivate)], step))
      pools[index] = { on: off, off: on }
    }
    const requests = batches.flatMap((batch) => batch.requests)
    const acted = batches.flatMap(({ step, requests: sent }) => (NOT_DONE.includes(step) ? [] : sent))
    await child.kill()
    t.equal(done() - before, acted.length, `it died at ${steps.join(' and ')}`)
    await ground.afterDeath()
    if (steps[0] === 'acted') {
      const recovering = ground.start('answered')
      await recovering.held(REPEATED_AT_ONCE)
      await recovering.kill() // and once more while it recovers
      await ground.afterDeath()
    }

    child = ground.start()
    await child.opened()
    for (const { step, requests: sent, answers } of batches) {
      const promised = step === 'planned' ? 0 : sent.length
      const entries = await ground.entriesOf(sent)
      t.equal(entries.length, promised, `what was promised is in the ledger (${step})`)
      t.ok(
        entries.every(({ outcome }) => outcome === 'completed'),
        'and done without being asked again',
      )
      const said = (await answers).map((answer) => (answer.status === 'fulfilled' ? answer.value : undefined))
      t.equal(said.filter(Boolean).length, step === 'said' ? sent.length : 0)
      for (const [index, request] of sent.entries()) {
        const isOn = request.action === 'activate'
        const answer = await send(request, index + 1) // over the other transport: it is the same request
        const live = [{ ...TRADE_DESK, is_live: isOn, ...(isOn && { activation_key: {} }) }]
        t.match(answer, { status: 'completed', deployments: live })
        t.equal(answer.replayed === true, promised > 0, 'a replay says so')
        if (said[index]) t.same(answer.deployments, said[index].deployments, 'and says the same')
      }
    }
    t.equal(done() - before, requests.length, 'each was done once')
  }
  const task = await child.call('a2a', 'get_task_status', { task_id, include_result: true })
  t.match(task, { status: 'completed', result: { deployments: [{ ...TRADE_DESK, is_live: true }] } })
  await child.kill()
  const ledger = await ground.exported()
  const count = (action: string) => ledger.filter((entry) => entry.action === action).length
  t.ok(ledger.every(({ outcome }) => outcome === 'completed'))
  t.same([count('activate'), count('deactivate')], ground.counts())
})

test('no checkpoint of the product is left out', async (t) => {
  t.same(DEATHS.flat().filter(isCheckpoint), CHECKPOINTS)
})
test('an upstream that dies between request and answer is asked again at once', async (t) => {
  const world = await startWorld(t, { agents: ['northwind'] })
  const { northwind } = world.sandbox.agents
  northwind.loseAnswers(1)
  t.match(await world.activate(asks(first(world.choices('northwind')))), { kind: 'answer' })
  t.equal(northwind.activations(), 1)
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'completed' }])
})

test('an upstream that dies again is asked until it answers, and the ledger says so', async (t) => {
  const { lost, call } = losingAnswers()
  const world = await startWorld(t, { agents: ['northwind'], call })
  const { northwind } = world.sandbox.agents
  lost.next = 2
  const request = asks(first(world.choices('northwind')), { idempotency_key: key() })
  t.match(await world.activate(request), { error: { code: 'SERVICE_UNAVAILABLE', retry_after: Number } })
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'pending' }])
  t.equal(northwind.activations(), 1, 'it was done, which nobody here knows yet')
  await world.activation.round()
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'completed' }])
  t.match(await world.activate(request), { kind: 'answer', replayed: true })
  t.equal(northwind.activations(), 1)
})
