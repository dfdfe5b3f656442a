/** The demo world's agents: keys, an account with prices of its own, questions in plain words, activations. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { GOLD_ACCOUNT } from '../../sandbox/discovery.js'
import { AGENTS } from '../../sandbox/parties.js'
import { JUDGED_BRIEFS } from '../../test/support/judged-briefs.js'
import { offer, percentile } from '../offer.js'
import { ours } from '../ours.js'
import { middle } from '../report.js'
import { ACCOUNT, type Bench, callersOf, compareLoads, PAGE, TOKENS, TRADE_DESK } from './bench.js'
import { inTurns, SIDES } from './ledger.js'
import { end, prepare, type Running, toolCall, until } from './program.js'

const SIGNALS = 2_400
const BRIEFS = JUDGED_BRIEFS.slice(0, 50)
const OFFERED = 200 // activations a second
const OFFERED_S = 4
const TURNS = 5
const { bench: token, granted } = TOKENS

const account = { account: { account_id: ACCOUNT } }
const LOADS: [what: string, selection: object, by: string][] = [
  ["the caller's keys", {}, granted],
  ['an account with prices of its own', account, token],
  ['an account, keys, a destination', { ...account, destinations: [TRADE_DESK] }, granted],
]

/** Ends when one feed has as many signals as the other has: the demo world does not say how many there will be. */
async function areAlike(both: readonly Running[]): Promise<boolean> {
  const counts = await Promise.all(
    both.map(async (each) => (await each.ask(PAGE, token)).pagination?.total_count),
  )
  return counts[0] !== 0 && new Set(counts).size === 1
}

async function compareBriefs(
  { ledger, rounds }: Bench,
  both: Record<'before' | 'after', Running>,
): Promise<void> {
  await inTurns(rounds + 1, async (side, round) => {
    const took: number[] = []
    const cpu = both[side].threadMicros()
    for (const { brief } of BRIEFS) {
      const since = performance.now()
      await both[side].ask({ signal_spec: `${brief}, plan ${round}` }, token)
      took.push(performance.now() - since)
    }
    if (round === 0) return
    const what = `a question in plain words, ${BRIEFS.length} different ones`
    ledger.note(side, `${what}: CPU`, 'ms', (both[side].threadMicros() - cpu) / 1_000 / BRIEFS.length)
    ledger.note(side, `${what}: answer, its agents' time included`, 'ms', middle(took))
  })
}

async function compareActivations(
  { ledger }: Bench,
  both: Record<'before' | 'after', Running>,
): Promise<void> {
  const activate = (running: Running, choice: object | undefined) => {
    const args = { ...choice, destinations: [TRADE_DESK], idempotency_key: randomUUID() }
    return running.ask(args, granted, 'activate_signal')
  }
  /** Those that are on at once: some agents take their time. */
  const choicesOf = async (running: Running): Promise<object[]> => {
    const { signals = [] } = await running.ask({ ...PAGE, destinations: [TRADE_DESK] }, granted)
    const found: object[] = []
    for (const { signal_agent_segment_id, pricing_options: [option] = [] } of signals) {
      const choice = { signal_agent_segment_id, pricing_option_id: option?.pricing_option_id }
      if ((await activate(running, choice)).status === 'completed') found.push(choice)
    }
    return found
  }
  const choices = { before: await choicesOf(both.before), after: await choicesOf(both.after) }
  let next = 0
  await inTurns(TURNS + 1, async (side, round) => {
    const cpu = both[side].threadMicros()
    const { ms, sent, done } = await offer(OFFERED, OFFERED_S, () =>
      activate(both[side], choices[side][next++ % choices[side].length]),
    )
    if (done !== sent) throw new Error(`${side}: ${done} of ${sent} activations were acknowledged`)
    if (round === 0) return
    const what = `an activation (SQLite, ${OFFERED} a second, all acknowledged)`
    ledger.note(side, `${what}: CPU`, 'ms', (both[side].threadMicros() - cpu) / 1_000 / sent)
    ledger.note(side, `${what}: answer, p50`, 'ms', percentile(ms, 0.5))
    ledger.note(side, `${what}: answer, p99`, 'ms', percentile(ms, 0.99))
  })
}

/** All rows of the demo world. */
export async function compareMarket(bench: Bench): Promise<void> {
  const script = fileURLToPath(new URL('market-agents.js', import.meta.url))
  const agents = ours(
    spawn(process.execPath, [script, String(SIGNALS)], { stdio: ['ignore', 'pipe', 'inherit'] }),
  )
  const [line] = (await once(agents.stdout, 'data')) as [Buffer]
  const { hosts, registryUrl } = JSON.parse(line.toString()) as { hosts: object; registryUrl: string }
  const config = {
    registries: [{ url: registryUrl, refresh: '1h' }],
    ...{ defaults: { refresh: '1h', timeout: '10s' }, egress: { hosts } },
    callers: callersOf({ [AGENTS.northwind.url]: { account_id: GOLD_ACCOUNT } }),
  }
  const places = {
    before: await prepare(bench.programs.before, config),
    after: await prepare(bench.programs.after, config),
  }
  const both = { before: await places.before.start(), after: await places.after.start() }
  for (const side of SIDES) await both[side].quiet()
  await until(() => areAlike([both.before, both.after]), 'the same feed of both builds')
  for (const [what, selection, by] of LOADS) {
    const body = toolCall('get_signals', { ...PAGE, ...selection })
    await compareLoads(bench, `page of 50 again, ${what}`, async (side) => ({
      ...{ url: `${both[side].url}/mcp`, running: both[side] },
      load: { asks: [{ body, token: by }] },
    }))
  }
  await compareBriefs(bench, both)
  await compareActivations(bench, both)
  for (const side of SIDES) {
    await both[side].stop()
    await places[side].remove()
  }
  await end(agents)
}
