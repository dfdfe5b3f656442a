/** What every part of the comparison is given, and what a server of either build is told. */
import { hash } from 'node:crypto'
import { request } from 'undici'
import { type Load, measure } from '../serving-load.js'
import { inTurns, type Ledger, type Side } from './ledger.js'
import type { Program, Running } from './program.js'

export type Bench = {
  ledger: Ledger
  programs: Record<Side, Program>
  /** Of whatever starts a server; loads and questions take more. */
  rounds: number
  /** Signals of the large feed. */
  signals: number
}

/** Of the callers: one who sees prices and has an account, and one who sees keys too. */
export const TOKENS = { bench: 'bench', granted: 'granted' } as const
export const ACCOUNT = 'acc_bench'
export const TRADE_DESK = { type: 'platform', platform: 'the-trade-desk' }
export const PAGE = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }
const LIMIT = { per_second: 1e6, burst: 1_000_000 }
const LOAD_ROUNDS = 5
const REQUESTS = 3_000 // of a page or less that is asked again

/** `callers` of a configuration; `accounts`: what ACCOUNT is at upstreams, by their urls. */
export function callersOf(accounts: Readonly<Record<string, object>> = {}) {
  const keyOf = (id: keyof typeof TOKENS) => ({
    ...{ id, token_sha256: hash('sha256', TOKENS[id], 'hex') },
    accounts: { [ACCOUNT]: accounts },
  })
  const keys = [keyOf('bench'), { ...keyOf('granted'), destinations: [TRADE_DESK] }]
  return { anonymous: 'metadata', keys, rate_limit: LIMIT }
}

/** Whether the whole feed is served, and how many signals it has. */
export async function isWhole(running: Running, signals: number): Promise<boolean> {
  const { pagination } = await running.ask({ ...PAGE, pagination: { max_results: 1 } }, TOKENS.bench)
  return pagination?.total_count === signals
}

/** Asks without a pause whether the server lives; the returned function ends it, with the longest wait for an answer, ms. */
export function watchStops(url: string): () => Promise<number> {
  let isOver = false
  let longest = 0
  async function watch(): Promise<number> {
    while (!isOver) {
      const since = performance.now()
      const answer = await request(`${url}/healthz`)
      await answer.body.dump()
      longest = Math.max(longest, performance.now() - since)
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    return longest
  }
  const watching = watch()
  return () => {
    isOver = true
    return watching
  }
}

/**
 * One kind of request at both servers in turns: CPU of the server for each of them, sixteen at once, and how long the middle
 * one of some that follow each other takes. Where each may be asked only once, all follow each other.
 */
export async function compareLoads(
  { ledger }: Bench,
  what: string,
  loadOf: (side: Side) => Promise<{ url: string; load: Load; running: Running }>,
): Promise<void> {
  await inTurns(LOAD_ROUNDS + 1, async (side, round) => {
    const { url, load, running } = await loadOf(side)
    const alone = { ...load, connections: 1 }
    const isOnce = load.asks.length > 1
    const cost = await measure(
      running.threadMicros,
      url,
      isOnce ? alone : load,
      isOnce ? load.asks.length : REQUESTS,
    )
    const { p50 } = isOnce ? cost : await measure(running.threadMicros, url, alone, REQUESTS / 5)
    if (round === 0) return // compiles the code
    ledger.note(side, `${what}: CPU`, 'us', cost.cpuMicros)
    ledger.note(side, `${what}: answer, p50`, 'ms', p50)
  })
}
