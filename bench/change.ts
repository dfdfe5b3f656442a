/**
 * From an upstream's new answer to the new page: one price changes among a thousand, a hundred thousand, a million signals
 * of twenty upstreams. Timed from the last row of the upstream's walk: sharing its rows, merging in the worker, publishing,
 * the page. Then what a retained generation costs, and an account with one price in a hundred of its own.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createFeed } from '../src/feed/feed.js'
import type { Reader } from '../src/feed/query.js'
import { createBuilderHost } from '../src/snapshot/builder-host.js'
import type { Slice } from '../src/upstreams/rows/slice.js'
import { benchSlice, range } from './feed-world.js'

const SIZES = process.env.SIGNALS ? [Number(process.env.SIGNALS)] : [1_000, 100_000, 1_000_000]
const UPSTREAMS = 20
const RUNS = 5
const reader: Reader = { caller: 'bench', visibility: 'full', grants: [] }
const policy = { policy: 'lenient' as const, providers: {} }
const table: [what: string, measured: string, bar: string][] = []

async function changes(signals: number): Promise<void> {
  const each = signals / UPSTREAMS
  const slices = Array.from({ length: UPSTREAMS }, (_, at) =>
    benchSlice(at, range(each * at, each * (at + 1))),
  )
  const host = createBuilderHost()
  const feed = createFeed({ cursorSecret: 'bench', retain: { ms: 60_000, bytes: 2 ** 30 } })
  const build = (of: readonly Slice[]) => host.build({ slices: of, providers: [], policy, now: 0 })
  feed.publish((await build(slices)).snapshot, 0)
  const times: number[] = []
  let longest = 0
  for (let run = 0; run < RUNS; run += 1) {
    const walked = benchSlice(0, range(0, each), (n) => (n === 7 ? 100 + run : n % 40))
    const ask = () => feed.wholesale({ maxResults: 50 }, reader, 0)
    const before = ask()
    await new Promise((resolve) => setTimeout(resolve, 50))
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    const started = performance.now()
    const { snapshot } = await build([walked, ...slices.slice(1)])
    feed.publish(snapshot, run)
    const after = ask()
    times.push(performance.now() - started)
    delay.disable()
    longest = Math.max(longest, delay.max / 1e6)
    if (before.kind !== 'page' || after.kind !== 'page' || before.pricingVersion === after.pricingVersion) {
      throw new Error('the change is not served')
    }
  }
  times.sort((a, b) => a - b)
  table.push([
    `one price changed among ${signals}: to the page, ms`,
    (times[RUNS >> 1] as number).toFixed(1),
    signals === 1_000_000 ? '1000' : '',
  ])
  table.push(['  longest stop of the serving thread meanwhile, ms', longest.toFixed(1), ''])
  await host.close()
}

for (const signals of SIZES) await changes(signals)
const width = Math.max(...table.map(([what]) => what.length))
for (const [what, measured, bar] of table) {
  console.log(`${what.padEnd(width)}  ${measured.padStart(14)}${bar ? `   (bar ${bar})` : ''}`)
}
