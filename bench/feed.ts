/**
 * The feed rows of docs/performance.md, up to a million signals (SIGNALS=n for another size): merging, memory,
 * filters, versions, pages and small changes. Takes about two minutes on a quiet machine.
 */
import { hash } from 'node:crypto'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createFeed } from '../src/feed/feed.js'
import type { Page, Reader, Selection } from '../src/feed/query.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { createBuilderHost } from '../src/snapshot/builder-host.js'
import { memoryOf, rowBytes, type Snapshot, wholeParts, wholeSnapshot } from '../src/snapshot/snapshot.js'
import { slabBuffers } from '../src/upstreams/rows/slab.js'
import type { Slice } from '../src/upstreams/rows/slice.js'
import { benchSlice, everyoneDefines, everyoneMay, range } from './feed-world.js'
import { mergeLimit } from './merge-limit.js'
import { haveAtHand } from './new-memory.js'
import { report } from './report.js'
import { validating } from './validation.js'

const SIGNALS = Number(process.env.SIGNALS ?? 1_000_000)
const UPSTREAMS = 20
const BUILDS = 3 // of all signals: the middle one counts
const BUILD_BYTES = 5_000 * SIGNALS // what a build writes to, and more

type Timed<T> = { value: T; wallMs: number; cpuMs: number; systemMs: number }

function timed<T>(work: () => T): Timed<T> {
  const cpu = process.cpuUsage()
  const started = performance.now()
  const value = work()
  const { user, system } = process.cpuUsage(cpu)
  const wallMs = performance.now() - started
  return { value, wallMs, cpuMs: (user + system) / 1_000, systemMs: system / 1_000 }
}

/** The middle of some runs, ms. */
function middle(runs: number, work: () => unknown): number {
  const times = Array.from({ length: runs }, () => timed(work).wallMs).sort((a, b) => a - b)
  return times[runs >> 1] as number
}

function slicesOf(signals: number): Slice[] {
  const each = signals / UPSTREAMS
  return Array.from({ length: UPSTREAMS }, (_, at) => benchSlice(at, range(each * at, each * (at + 1))))
}

/** Bytes of every buffer that the snapshot keeps alive, slices apart. */
function heldBytes(snapshot: Snapshot): number {
  return memoryOf(snapshot, undefined).added
}

function payloadBytes(snapshot: Snapshot): number {
  return snapshot.rows.length.reduce((sum, length) => sum + length, 0)
}

const reader: Reader = { caller: 'bench', visibility: 'full', grants: [] }

function pageOf(feed: ReturnType<typeof createFeed>, selection: Selection, cursor?: string): Page {
  const answer = feed.wholesale({ ...selection, maxResults: 50, ...(cursor ? { cursor } : {}) }, reader, 0)
  if (answer.kind !== 'page') throw new Error(`a page was expected, ${answer.kind} came`)
  return answer
}

/** The middle one of some builds, for each of which the system has memory at hand. */
async function middleBuild<T>(build: () => T, of: (built: Awaited<T>) => number): Promise<Awaited<T>> {
  const builds: Awaited<T>[] = []
  while (builds.length < BUILDS) {
    await haveAtHand(BUILD_BYTES)
    builds.push(await build())
  }
  builds.sort((a, b) => of(a) - of(b))
  return builds[BUILDS >> 1] as Awaited<T>
}

/** Seconds until a host that has built nothing has built the feed. */
async function firstBuild(slices: readonly Slice[]): Promise<number> {
  const host = createBuilderHost()
  const startedAt = performance.now()
  await host.build({ slices, providers: [], policy: { policy: 'lenient', providers: {} }, now: 0 })
  const seconds = (performance.now() - startedAt) / 1_000
  await host.close()
  return seconds
}

async function merging(slices: readonly Slice[]): Promise<Snapshot> {
  const warm = slices.slice(0, 1)
  buildSnapshot({ slices: warm, judge: everyoneMay })
  const byCpu = ({ cpuMs }: Timed<unknown>) => cpuMs
  const built = await middleBuild(() => timed(() => buildSnapshot({ slices, judge: everyoneMay })), byCpu)
  buildSnapshot({ slices: warm, judge: everyoneDefines })
  const some = slices.slice(0, 4)
  const defined = await middleBuild(
    () => timed(() => buildSnapshot({ slices: some, judge: everyoneDefines })),
    byCpu,
  )
  const seconds = await middleBuild(
    () => firstBuild(slices),
    (seconds) => seconds,
  )
  const [sample] = warm as [Slice]
  const perRow = built.cpuMs / SIGNALS
  const { one, two } = await mergeLimit(sample.rows)
  const of = 'each stage alone in a plain loop (least work, above)'
  report({ what: 'merge + index, listings a second of CPU', measured: 1_000 / perRow })
  report({
    what: '  of the CPU of a listing, what the system takes for new memory that it has at hand',
    ...{ measured: (built.systemMs / SIGNALS) * 1_000, unit: 'us' },
  })
  report({
    what: 'the same of signals that their providers define, a fifth of them',
    measured: (SIGNALS * some.length) / UPSTREAMS / (defined.cpuMs / 1_000),
  })
  report({
    what: 'the same, validated as rows of agents are: of one core',
    ...{
      measured: 1_000 / (perRow + (await validating(sample.rows))),
      bar: { atLeast: 100_000 },
      limit: { is: one, of },
    },
  })
  report({
    what: 'merge + index on two cores, listings a second (the first feed, two builders)',
    ...{ measured: SIGNALS / seconds, bar: { atLeast: 180_000 } },
    limit: { is: two, of: `${of}, in two threads at once` },
  })
  return built.value
}

function memory(snapshot: Snapshot, slices: readonly Slice[]): void {
  const payload = payloadBytes(snapshot)
  const sizes = slices.flatMap(({ rows }) => [
    ...slabBuffers(rows).map(({ byteLength }) => byteLength),
    rows.count * 18,
  ])
  const mirror = sizes.reduce((sum, bytes) => sum + bytes, 0)
  report({ what: 'bytes a signal, published row', measured: payload / SIGNALS })
  report({
    what: `memory of the snapshot at ${SIGNALS} signals against payload`,
    ...{ measured: heldBytes(snapshot) / payload, unit: 'x', bar: { atMost: 1.2 } },
  })
  report({ what: 'the upstream slices beside it, against payload', measured: mirror / payload, unit: 'x' })
}

/** Ms of a plain loop over one column and one hash of what it finds: the least that a filter and its version can cost. */
function filterLimit({ facts, digests, count }: Snapshot): number {
  let wanted = 0
  return middle(9, () => {
    const found = new Uint32Array(count)
    let length = 0
    wanted += 1
    for (let entry = 0; entry < count; entry += 1) {
      if (facts.provider[entry] === wanted) found[length++] = entry
    }
    const words = new Uint32Array(length * 4)
    for (let at = 0; at < length; at += 1) {
      const from = (found[at] as number) * 4
      for (let word = 0; word < 4; word += 1) words[at * 4 + word] = digests.structure[from + word] as number
    }
    hash('sha256', words, 'binary')
  })
}

/** A filter nobody asked before, as the server works it out: in portions, between which others are served. */
async function filtering(feed: ReturnType<typeof createFeed>, snapshot: Snapshot): Promise<void> {
  const stops: number[] = []
  const takes: number[] = []
  for (let run = 0; run < 9; run += 1) {
    const filters = { data_providers: [`provider-${20 + run}.example`] }
    const delay = monitorEventLoopDelay({ resolution: 1 })
    await new Promise((resolve) => setTimeout(resolve, 20))
    delay.enable()
    const { wallMs, value } = timed(() => feed.prepared({ filters }, reader))
    const startedAt = performance.now()
    await value
    takes.push(wallMs + performance.now() - startedAt)
    await new Promise((resolve) => setTimeout(resolve, 20))
    delay.disable()
    stops.push(delay.max / 1e6)
  }
  const at = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1] as number
  report({
    what: `a filter over ${SIGNALS} signals that nobody asked before`,
    ...{ measured: at(takes), unit: 'ms', bar: { atMost: 30 } },
    limit: { is: filterLimit(snapshot), of: 'a loop over one column and a hash of what it finds' },
  })
  report({
    what: '  longest stop of the serving thread meanwhile',
    ...{ measured: at(stops), unit: 'ms', bar: { atMost: 10 } },
  })
}

async function reading(snapshot: Snapshot): Promise<void> {
  const feed = createFeed({ cursorSecret: 'bench', retain: { ms: 1, bytes: 2 ** 30 } })
  feed.publish(snapshot, 0)
  await filtering(feed, snapshot)
  let provider = 0
  let price = 0
  const byProvider = () =>
    pageOf(feed, { filters: { data_providers: [`provider-${provider++ % 50}.example`] } })
  const byAll = () =>
    pageOf(feed, {
      filters: { catalog_types: ['marketplace'], max_cpm: 20 + price++ / 1_000, min_coverage_percentage: 30 },
      countries: ['DE'],
    })
  const walk = (pages: number, selection: Selection) => {
    let cursor: string | undefined
    for (let at = 0; at < pages; at += 1) cursor = pageOf(feed, selection, cursor).cursor
  }
  const scattered: Selection = { filters: { data_providers: ['provider-7.example'] } }
  pageOf(feed, scattered)
  const elsewhere: Selection = { destinations: [{ type: 'platform', platform: 'dv360' }] }
  pageOf(feed, elsewhere)
  const pages = Math.min(200, SIGNALS / 50 / 50)
  const micros = (what: string, runs: number, pages: number, work: () => unknown) =>
    report({ what, measured: (middle(runs, work) / pages) * 1_000, unit: 'us' })
  report({ what: 'first page of a provider, in one go', measured: middle(9, byProvider), unit: 'ms' })
  report({ what: 'first page of five criteria, in one go', measured: middle(9, byAll), unit: 'ms' })
  micros('a page in sequence', 5, 200, () => walk(200, {}))
  micros('a page of scattered rows', 5, pages, () => walk(pages, scattered))
  micros('a page with deployments left out', 5, 50, () => walk(50, elsewhere))
  micros('an unchanged answer', 5, 1_000, () => {
    const { feedVersion: ifFeedVersion } = pageOf(feed, {})
    for (let at = 0; at < 1_000; at += 1) feed.wholesale({ maxResults: 50, ifFeedVersion }, reader, 0)
  })
}

/** A part as storages give it: in shared memory of its own. */
function asRead(part: Uint8Array): Uint8Array {
  const read = new Uint8Array(new SharedArrayBuffer(part.byteLength))
  read.set(part)
  return read
}

/** A replica takes up a generation that another built: from its parts to the first page. */
function loading(snapshot: Snapshot): void {
  const parts = wholeParts(snapshot).map(asRead)
  const feed = createFeed({ cursorSecret: 'bench', retain: { ms: 1, bytes: 2 ** 30 } })
  feed.publish(snapshot, 0)
  const { wallMs } = timed(() => {
    const loaded = wholeSnapshot(parts)
    if (!loaded) throw new Error('the parts are no snapshot')
    feed.publish(loaded, 0)
    pageOf(feed, {})
  })
  report({
    what: `the serving thread takes up a generation of ${SIGNALS} signals from its parts`,
    ...{ measured: wallMs, unit: 'ms', bar: { atMost: 50 } },
  })
}

/** One upstream brings one price in a hundred anew. */
function changing(previous: Snapshot, slices: readonly Slice[]): void {
  const each = SIGNALS / UPSTREAMS
  const moved = benchSlice(0, range(0, each), (n) => (n % 100 === 0 ? 99 : n % 40))
  const next = [moved, ...slices.slice(1)]
  const { wallMs, value } = timed(() => buildSnapshot({ previous, slices: next, judge: everyoneMay }))
  const same = timed(() => buildSnapshot({ previous: value, slices: next, judge: everyoneMay }))
  report({ what: `a build with ${each / 100} changed listings`, measured: wallMs, unit: 'ms' })
  report({ what: 'a build in which nothing changed', measured: same.wallMs, unit: 'ms' })
  report({ what: 'rows copied because their chunk was left', measured: countMoved(previous, value) })
}

function countMoved(before: Snapshot, after: Snapshot): number {
  let moved = 0
  for (let entry = 0; entry < after.count; entry += 997) {
    if (rowBytes(before, entry).buffer !== rowBytes(after, entry).buffer) moved += 1
  }
  return moved * 997
}

console.log(`${SIGNALS} signals from ${UPSTREAMS} upstreams`)
const slices = slicesOf(SIGNALS)
const snapshot = await merging(slices)
memory(snapshot, slices)
await reading(snapshot)
loading(snapshot)
changing(snapshot, slices)
