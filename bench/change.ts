/**
 * From an upstream's new answer to the new page: one price changes among a thousand, a hundred thousand, a million signals
 * of twenty upstreams. Timed from the last row of the upstream's walk: sharing its rows, merging in the worker, publishing,
 * the page. Then what a retained generation costs, and an account with one price in a hundred of its own,
 * and a hundred of them.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createFeed } from '../src/feed/feed.js'
import type { Reader } from '../src/feed/query.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { createBuilderHost } from '../src/snapshot/builder-host.js'
import type { Snapshot } from '../src/snapshot/snapshot.js'
import { shareRows } from '../src/upstreams/rows/new-slice.js'
import { slabBuffers } from '../src/upstreams/rows/slab.js'
import { type Slice, withoutPlaces } from '../src/upstreams/rows/slice.js'
import { benchSlice, everyoneMay, range } from './feed-world.js'
import { report } from './report.js'

const SIZES = process.env.SIGNALS ? [Number(process.env.SIGNALS)] : [1_000, 100_000, 1_000_000]
const UPSTREAMS = 20
const RETAINED = 100_000
const [ACCOUNTS, OF_ACCOUNTS] = [100, 20_000]
const RUNS = 5
const reader: Reader = { caller: 'bench', visibility: 'full', grants: [] }
const policy = { policy: 'lenient' as const, providers: {} }

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
  const million = signals === 1_000_000
  report({
    what: `one price changed among ${signals}: from the walked rows to the page`,
    ...{ measured: times[RUNS >> 1] as number, unit: 'ms' },
    ...(million && { bar: { atMost: 1_000 } }),
  })
  report({
    what: `longest stop of the serving thread while one of ${signals} changes`,
    ...{ measured: longest, unit: 'ms', bar: { atMost: 50 } },
  })
  await host.close()
}

/** Bytes of rows that only these slices hold. */
function slabsBeyond(slices: readonly Slice[], others: readonly Slice[]): number {
  const known = new Set(others.flatMap(({ rows }) => slabBuffers(rows)))
  const own = new Set(slices.flatMap(({ rows }) => slabBuffers(rows)).filter((buffer) => !known.has(buffer)))
  return [...own].reduce((sum, buffer) => sum + buffer.byteLength, 0)
}

/** The slices walked again, rows that did not change lying where they lay. */
function walkedAgain(
  slices: readonly Slice[],
  price: (n: number) => number,
  scope = 'public',
): Promise<Slice[]> {
  return Promise.all(
    slices.map(async (before, at) => {
      const each = before.rows.count
      const walked = benchSlice(at, range(each * at, each * (at + 1)), price)
      const { rows } = await shareRows({ ...walked, refused: [], domains: [] }, before)
      return { ...walked, scope, rows }
    }),
  )
}

async function memory(): Promise<void> {
  const each = RETAINED / UPSTREAMS
  const slices = Array.from({ length: UPSTREAMS }, (_, at) =>
    withoutPlaces(benchSlice(at, range(each * at, each * (at + 1)))),
  )
  const before = buildSnapshot({ slices, judge: everyoneMay })
  const rowBytes = before.rows.length.reduce((sum, length) => sum + length, 0)
  const percent = (bytes: number) => (bytes / rowBytes) * 100
  const mirrored = slabsBeyond(slices, []) / rowBytes
  for (const share of [0.01, 1]) {
    const changed = await walkedAgain(slices, (n) => (n % (1 / share) === 0 ? 99 : n % 40))
    const after = buildSnapshot({ previous: before, slices: changed, judge: everyoneMay })
    const own = after.memory.released + slabsBeyond(slices, changed)
    const parts = share * (1 + mirrored) * rowBytes
    report({
      what: `a generation kept after ${share * 100} % of prices changed, against payload`,
      ...{ measured: percent(own), unit: '%' },
      bar: { atMost: Number((percent(parts) + 5).toFixed(1)) }, // the changed parts, and five in a hundred
    })
  }
  const theirs = await walkedAgain(slices, (n) => (n % 100 === 0 ? 99 : n % 40), 'account')
  const account = buildSnapshot({ previous: before, slices: theirs, judge: everyoneMay })
  const whole = before.memory.added
  const of = (bytes: number) => (bytes / whole) * 100
  report({
    what: "an account with 1 % own prices, against the public snapshot's memory",
    ...{ measured: of(account.memory.added), unit: '%', bar: { atMost: 5 } },
  })
  report({
    what: '  its slices, where they share rows with the public ones',
    ...{ measured: of(slabsBeyond(theirs, slices)), unit: '%' },
  })
}

/** As `memory` of one account, of a hundred that are held at the same time, each with other prices. */
async function accounts(): Promise<void> {
  const each = OF_ACCOUNTS / UPSTREAMS
  const slices = Array.from({ length: UPSTREAMS }, (_, at) =>
    benchSlice(at, range(each * at, each * (at + 1))),
  )
  const everybody = buildSnapshot({ slices, judge: everyoneMay })
  const held: Snapshot[] = []
  for (let account = 0; account < ACCOUNTS; account += 1) {
    const theirs = await walkedAgain(slices, (n) => (n % 100 === account ? 99 : n % 40), `account-${account}`)
    held.push(buildSnapshot({ previous: everybody, slices: theirs, judge: everyoneMay }))
  }
  const added = held.reduce((sum, snapshot) => sum + snapshot.memory.added, 0)
  report({
    what: `${ACCOUNTS} accounts with 1 % own prices, each against the memory of ${OF_ACCOUNTS} public signals`,
    ...{ measured: (100 * added) / ACCOUNTS / everybody.memory.added, unit: '%', bar: { atMost: 5 } },
  })
}

for (const signals of SIZES) await changes(signals)
await memory()
await accounts()
