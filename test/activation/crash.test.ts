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
import { type Child, type Fields, prepareTributary, TRANSPORTS } from './support/tributary-child.js'
import { asks, first, key, losingAnswers, openLive, startWorld } from './support/world.js'

const DOMAIN = 'signals.northwind.example'
const TOKEN = 'a-buyer-key'

/** Where Tributary is killed: at its own checkpoints, while the upstream holds the request, and after its answer. */
const STEPS = [
  'planned',
  'intended',
  'asked', // the upstream does not have it yet
  'acted', // the upstream did it, its answer is on the way
  'answered',
  'settled',
  'concluded',
  'said', // the caller has the answer
] as const
type Step = (typeof STEPS)[number]
const LINE: Partial<Record<Step, 'there' | 'back'>> = { asked: 'there', acted: 'back' }
const NOT_DONE: readonly Step[] = ['planned', 'intended', 'asked']

const isCheckpoint = (step: Step): step is Step & Checkpoint =>
  (CHECKPOINTS as readonly string[]).includes(step)

type Request = { idempotency_key: string; action: string } & Record<string, unknown>

/** A sandbox, the way to its agent, and what a whole Tributary in another process runs on. */
async function startGround(t: Test, storage: Storage) {
  const sandbox = await startSandbox({ signals: 48 })
  const { northwind } = sandbox.agents
  const line = await openHeldLine(sandbox.hosts[DOMAIN] as string)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-crash-'))
  t.teardown(async () => {
    await line.close()
    await sandbox.close()
    await rm(folder, { recursive: true, force: true })
  })
  const configuration = JSON.stringify({
    listen: { port: 0 },
    upstreams: [{ id: 'northwind', url: northwind.url, protocol: 'mcp' }],
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
    const prepared = prepareTributary()
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
      const { out } = await runCommand(['ledger', '--config', file, '--json', '--limit', '1000'])
      return out.split('\n').flatMap((text) => (text === '' ? [] : (JSON.parse(text) as Entry)))
    },
    sandbox,
  }
}

/** Requests that activate signals of the feed, as a caller of this Tributary finds them. */
async function findings(child: Child): Promise<Record<string, unknown>[]> {
  const { signals } = await child.call('mcp', 'get_signals', {
    discovery_mode: 'wholesale',
    destinations: [TRADE_DESK],
    pagination: { max_results: 100 },
  })
  return signals.flatMap(({ signal_agent_segment_id, pricing_options: [option] = [] }: Fields) =>
    option
      ? [{ signal_agent_segment_id, pricing_option_id: option.pricing_option_id, destinations: [TRADE_DESK] }]
      : [],
  )
}

onEveryStorage('a kill at any step neither loses an activation nor makes two', async (t, storage) => {
  t.setTimeout(60_000) // each step starts a process
  const ground = await startGround(t, storage)
  const { line, done } = ground
  let child = ground.start()
  await child.opened()
  const found = await findings(child)
  const [ons, offs] = [found.slice(0, 2), found.slice(2, 4)]
  const send = (request: object, index: number) =>
    child.call(TRANSPORTS[index % 2] as 'mcp', 'activate_signal', request)
  const activate = (request: object): Request => ({ ...request, action: 'activate', idempotency_key: key() })
  const deactivate = ({ pricing_option_id: _, ...request }: Record<string, unknown>): Request => ({
    ...request,
    ...{ action: 'deactivate', idempotency_key: key() },
  })
  for (const [index, request] of offs.entries()) await send(activate(request), index)

  for (const step of STEPS) {
    const before = done()
    const requests = [...ons.map(activate), ...offs.map(deactivate)]
    if (isCheckpoint(step)) await child.hold(step)
    line.hold(LINE[step])
    const answers = Promise.allSettled(requests.map(send))
    if (isCheckpoint(step)) await child.held(requests.length)
    else if (step === 'said') await answers
    else await until('the line holds them', () => line.held() === requests.length)
    await child.kill()
    const said = (await answers).map((answer) => (answer.status === 'fulfilled' ? answer.value : undefined))
    t.equal(done() - before, NOT_DONE.includes(step) ? 0 : requests.length, `died where it should: ${step}`)
    t.equal(said.every(Boolean), step === 'said')
    line.hold(undefined)
    await ground.afterDeath()
    if (step === 'acted') {
      const recovering = ground.start('answered')
      await recovering.held(requests.length)
      await recovering.kill()
      await ground.afterDeath()
    }

    child = ground.start()
    await child.opened()
    const entries = await ground.entriesOf(requests)
    const promised = step !== 'planned'
    t.equal(entries.length, promised ? requests.length : 0, `what was promised is in the ledger (${step})`)
    t.ok(
      entries.every(({ outcome }) => outcome === 'completed'),
      'and done without being asked again',
    )
    t.equal(done() - before, entries.length, 'as often as the ledger says')
    for (const [index, request] of requests.entries()) {
      const isOn = request.action === 'activate'
      const answer = await send(request, index + 1) // the other transport: it is the same request
      const live = [{ ...TRADE_DESK, is_live: isOn, ...(isOn && { activation_key: {} }) }]
      t.match(answer, { status: 'completed', deployments: live })
      t.equal(answer.replayed === true, promised, 'a replay says so')
      if (said[index]) t.same(answer.deployments, said[index].deployments, 'and says the same')
    }
    t.equal(done() - before, requests.length, 'and once in all')
    offs.push(...ons.splice(0, 2, ...offs.splice(0, 2))) // what is on is switched off next
  }
  await child.kill()
  const ledger = await ground.exported()
  const { northwind } = ground.sandbox.agents
  const count = (action: string) => ledger.filter((entry) => entry.action === action).length
  t.ok(ledger.every(({ outcome }) => outcome === 'completed'))
  t.same([count('activate'), count('deactivate')], [northwind.activations(), northwind.deactivations()])
})

test('every checkpoint of the product is a step of this test', async (t) => {
  t.same(STEPS.filter(isCheckpoint), CHECKPOINTS)
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
