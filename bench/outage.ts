/**
 * The database is gone for a while: a whole Tributary on PostgreSQL under a steady stream of reads and activations, its
 * database killed, and back. Prints what was answered in each phase; ends with what has to hold: no read failed, every write
 * was done or refused with when to repeat it, and in the end each was done once. `node dist/bench/outage.js [seconds]`.
 */
import { hash, randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { startSandbox } from '../sandbox/world.js'
import { ledgerEntries } from '../src/store/records/ledger.js'
import { openStore } from '../src/store/store.js'
import { type Fields, prepareTributary } from '../test/activation/support/tributary-child.js'
import { postgresBinaries, startPostgres } from '../test/store/support/postgres.js'
import { givenNumber } from '../test/support/given.js'

const GONE_S = givenNumber(0, 30)
const BEFORE_S = 10
const AFTER_S = 20
const EVERY_MS = { page: 20, brief: 250, activation: 100 }
const SETTLED_BY_MS = 90_000 // leases of calls that were under way when the database went end by themselves
const TOKEN = 'a-buyer-key'
const TRADE_DESK = { type: 'platform', platform: 'the-trade-desk' }

type Phase = 'before' | 'gone' | 'back'
type Tally = { answered: number; refused: number; failed: number; ms: number[] }

const tally = (): Tally => ({ answered: 0, refused: 0, failed: 0, ms: [] })
const phases = { before: 'before', gone: `gone ${GONE_S} s`, back: 'back' }
const tallies = Object.fromEntries(
  Object.keys(phases).map((phase) => [phase, { page: tally(), brief: tally(), activation: tally() }]),
) as Record<Phase, Record<keyof typeof EVERY_MS, Tally>>

/** SERVICE_UNAVAILABLE with the time after which to repeat, in ms. */
function retryMs({ adcp_error: error }: Fields): number | undefined {
  const isTold = error?.code === 'SERVICE_UNAVAILABLE' && Number.isInteger(error.retry_after)
  return isTold ? error.retry_after * 1_000 : undefined
}

function percentile(ms: readonly number[], share: number): string {
  const sorted = [...ms].sort((one, other) => one - other)
  return (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(0)
}

function printTable(): void {
  console.log('phase        what          answered   refused    failed    p50 ms    p99 ms    max ms')
  for (const [phase, title] of Object.entries(phases)) {
    for (const [what, { answered, refused, failed, ms }] of Object.entries(tallies[phase as Phase])) {
      const times = [0.5, 0.99, 1].map((share) => percentile(ms, share))
      const cells = [answered, refused, failed, ...times].map((cell) => String(cell).padStart(10))
      console.log(`${title.padEnd(12)} ${what.padEnd(11)} ${cells.join('')}`)
    }
  }
}

async function main(binaries: string): Promise<boolean> {
  const postgres = await startPostgres(binaries)
  const sandbox = await startSandbox({ signals: 240 })
  const { northwind } = sandbox.agents
  const url = postgres.url
  const tributary = prepareTributary()
  const configuration = {
    listen: { port: 0 },
    upstreams: [{ id: 'northwind', url: northwind.url }],
    egress: { hosts: sandbox.hosts },
    callers: {
      keys: [{ id: 'buyer', token_sha256: hash('sha256', TOKEN, 'hex'), destinations: [TRADE_DESK] }],
    },
    storage: { url },
  }
  const server = tributary.run(JSON.stringify(configuration), TOKEN)
  await server.opened()

  let phase: Phase = 'before'
  let backAt = 0
  let firstWriteMs: number | undefined
  let calls = 0
  const open = new Set<Promise<void>>()

  /** One request, counted in the phase in which it was sent; gives when to repeat it, if it should be. */
  async function ask(what: keyof typeof EVERY_MS, task: string, input: object): Promise<number | undefined> {
    const counted = tallies[phase][what]
    const sentAt = performance.now()
    calls += 1
    const answer: Fields = await server
      .call(calls % 2 ? 'mcp' : 'a2a', task, input)
      .catch((error: Error) => ({ status: 'failed', message: error.message }))
    counted.ms.push(performance.now() - sentAt)
    const again = retryMs(answer)
    if (answer.status === 'completed') counted.answered += 1
    else if (again !== undefined) counted.refused += 1
    else {
      counted.failed += 1
      console.log(`${phase}: ${what} failed: ${JSON.stringify(answer.adcp_error ?? answer.message)}`)
    }
    if (what === 'activation' && answer.status === 'completed' && phase === 'back') {
      firstWriteMs ??= performance.now() - backAt
    }
    return again
  }

  const wholesale = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }
  const { signals } = await server.call('mcp', 'get_signals', { ...wholesale, destinations: [TRADE_DESK] })
  const choices: object[] = signals.flatMap(
    ({ signal_agent_segment_id, pricing_options: [option] = [] }: Fields) =>
      option ? [{ signal_agent_segment_id, pricing_option_id: option.pricing_option_id }] : [],
  )

  let wanted = 0
  /** As a caller does it: repeated under its key, when it is told to, until it is done. */
  async function activate(): Promise<void> {
    wanted += 1
    const choice = choices[wanted % choices.length]
    const request = { ...choice, destinations: [TRADE_DESK], idempotency_key: randomUUID() }
    const until = Date.now() + (BEFORE_S + GONE_S + AFTER_S) * 1_000 + SETTLED_BY_MS
    for (;;) {
      const again = await ask('activation', 'activate_signal', request)
      if (again === undefined || Date.now() > until) return
      await wait(again)
    }
  }

  const work = {
    page: () => ask('page', 'get_signals', wholesale).then(() => {}),
    brief: () => ask('brief', 'get_signals', { signal_spec: 'people who shop for a car' }).then(() => {}),
    activation: activate,
  }
  const timers = Object.entries(work).map(([what, run]) =>
    setInterval(
      () => {
        const running: Promise<void> = run().finally(() => open.delete(running))
        open.add(running)
      },
      EVERY_MS[what as keyof typeof EVERY_MS],
    ),
  )
  await wait(BEFORE_S * 1_000)
  phase = 'gone'
  await postgres.kill()
  await wait(GONE_S * 1_000)
  await postgres.start()
  backAt = performance.now()
  phase = 'back'
  await wait(AFTER_S * 1_000)
  for (const timer of timers) clearInterval(timer)
  await Promise.all(open)
  const settledS = (performance.now() - backAt) / 1_000

  const store = await openStore({ url, now: Date.now, onProblem: () => {} })
  const outcomes = new Map<string, number>()
  for await (const { outcome } of ledgerEntries(store.ledger, {})) {
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  }
  await store.close()
  await tributary.kill()
  await sandbox.close()
  await postgres.remove()

  printTable()
  const completed = outcomes.get('completed') ?? 0
  console.log(
    `${wanted} activations wanted, ${northwind.activations()} at the upstream, in the ledger ${JSON.stringify(Object.fromEntries(outcomes))}`,
  )
  console.log(
    `first write ${firstWriteMs?.toFixed(0)} ms after the database was back; every one done after ${settledS.toFixed(0)} s`,
  )
  const isClean = Object.values(tallies).every(
    ({ page, brief, activation }) =>
      page.failed + page.refused + brief.failed + brief.refused + activation.failed === 0,
  )
  return isClean && outcomes.size === 1 && completed === wanted && northwind.activations() === wanted
}

const binaries = postgresBinaries()
if (!binaries) console.log('skipped: no PostgreSQL on this machine (pg_config does not name its binaries)')
else if (!(await main(binaries))) process.exitCode = 1
