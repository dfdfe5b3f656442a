/**
 * The feed rows of docs/performance.md, up to a million signals (SIGNALS=n for another size): merging, memory,
 * filters, versions, pages, small changes, and what readers feel while a worker merges. Prints one table; takes about
 * two minutes on a quiet machine.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import formats from 'ajv-formats'
import Fastify from 'fastify'
import { SignalRow } from '../src/adcp/signal.js'
import { createFeed } from '../src/feed/feed.js'
import type { Page, Reader, Selection } from '../src/feed/query.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { createBuilderHost } from '../src/snapshot/builder-host.js'
import { buffersOf, rowBytes, type Snapshot } from '../src/snapshot/snapshot.js'
import { slabBytes } from '../src/upstreams/rows/slab.js'
import { type Slice, sliceListing } from '../src/upstreams/rows/slice.js'
import { benchSlice, everyoneMay, range } from './feed-world.js'

const SIGNALS = Number(process.env.SIGNALS ?? 1_000_000)
const UPSTREAMS = 20
const MERGED_WHILE_SERVING = Math.min(300_000, SIGNALS)
const LOAD_SECONDS = 5

const table: [what: string, measured: string, bar: string][] = []
const round = (value: number, digits = 2) => value.toFixed(digits)

type Timed<T> = { value: T; wallMs: number; cpuMs: number }

function timed<T>(work: () => T): Timed<T> {
  const cpu = process.cpuUsage()
  const started = performance.now()
  const value = work()
  const { user, system } = process.cpuUsage(cpu)
  return { value, wallMs: performance.now() - started, cpuMs: (user + system) / 1_000 }
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
  return [...buffersOf(snapshot)].reduce((sum, buffer) => sum + buffer.byteLength, 0)
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

function merging(slices: readonly Slice[]): Snapshot {
  const ajv = new Ajv({ strict: false })
  formats.default(ajv)
  const validate = ajv.compile(SignalRow)
  const warm = slices.slice(0, 1)
  buildSnapshot({ slices: warm, judge: everyoneMay })
  const { value, wallMs, cpuMs } = timed(() => buildSnapshot({ slices, judge: everyoneMay }))
  const [sample] = warm as [Slice]
  const validation = timed(() => {
    for (let row = 0; row < sample.rows.count; row += 1) {
      if (!validate(sliceListing(sample, row))) throw new Error('a bench listing is not valid')
    }
  })
  const parsing = timed(() => {
    for (let row = 0; row < sample.rows.count; row += 1) sliceListing(sample, row)
  })
  const validating = (validation.cpuMs - parsing.cpuMs) / sample.rows.count
  const perRow = cpuMs / SIGNALS
  table.push(
    ['merge + index, listings a second of wall time', round((SIGNALS / wallMs) * 1_000, 0), '100000'],
    ['the same, a second of CPU', round(1_000 / perRow, 0), ''],
    ['the same, validated once more, a second of CPU', round(1_000 / (perRow + validating), 0), '100000'],
    [
      'merge against JSON.parse of the same rows',
      `${round(perRow / (parsing.cpuMs / sample.rows.count))}x`,
      '',
    ],
  )
  return value
}

function memory(snapshot: Snapshot, slices: readonly Slice[]): void {
  const payload = payloadBytes(snapshot)
  const mirror = slices.reduce((sum, { rows }) => sum + slabBytes(rows) + rows.count * 18, 0)
  table.push(
    ['bytes a signal, published row', round(payload / SIGNALS, 0), ''],
    ['memory of the snapshot against payload', `${round(heldBytes(snapshot) / payload)}x`, '1.35x'],
    ['the upstream slices beside it, against payload', `${round(mirror / payload)}x`, ''],
  )
}

function reading(snapshot: Snapshot): void {
  const feed = createFeed({ cursorSecret: 'bench', retain: { ms: 1, bytes: 2 ** 30 } })
  feed.publish(snapshot, 0)
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
  table.push(
    ['first page of a provider, view and version made, ms', round(middle(9, byProvider)), ''],
    ['first page of five criteria, view and version made, ms', round(middle(9, byAll)), ''],
    ['a page in sequence, us', round((middle(5, () => walk(200, {})) / 200) * 1_000, 1), ''],
    ['a page of scattered rows, us', round((middle(5, () => walk(pages, scattered)) / pages) * 1_000, 1), ''],
    [
      'a page with deployments left out, us',
      round((middle(5, () => walk(50, elsewhere)) / 50) * 1_000, 1),
      '',
    ],
    [
      'an unchanged answer, us',
      round(
        (middle(5, () => {
          const { feedVersion: ifFeedVersion } = pageOf(feed, {})
          for (let at = 0; at < 1_000; at += 1) feed.wholesale({ maxResults: 50, ifFeedVersion }, reader, 0)
        }) /
          1_000) *
          1_000,
        1,
      ),
      '',
    ],
  )
}

/** One upstream brings one price in a hundred anew. */
function changing(previous: Snapshot, slices: readonly Slice[]): void {
  const each = SIGNALS / UPSTREAMS
  const moved = benchSlice(0, range(0, each), (n) => (n % 100 === 0 ? 99 : n % 40))
  const next = [moved, ...slices.slice(1)]
  const { wallMs, value } = timed(() => buildSnapshot({ previous, slices: next, judge: everyoneMay }))
  const same = timed(() => buildSnapshot({ previous: value, slices: next, judge: everyoneMay }))
  table.push(
    [`a build with ${each / 100} changed listings, ms`, round(wallMs, 0), ''],
    ['a build in which nothing changed, ms', round(same.wallMs, 0), ''],
    ['rows copied because their chunk was left', String(countMoved(previous, value)), ''],
  )
}

function countMoved(before: Snapshot, after: Snapshot): number {
  let moved = 0
  for (let entry = 0; entry < after.count; entry += 997) {
    if (rowBytes(before, entry).buffer !== rowBytes(after, entry).buffer) moved += 1
  }
  return moved * 997
}

type Latencies = { p50: number; p99: number }

/** p50 and p99 of requests, ms, measured by another process. */
async function load(port: number): Promise<Latencies> {
  const child = fork(fileURLToPath(new URL('./feed-load.js', import.meta.url)), [
    String(port),
    String(LOAD_SECONDS),
  ])
  const [result] = (await once(child, 'message')) as [Latencies]
  return result
}

async function serving(snapshot: Snapshot): Promise<void> {
  const feed = createFeed({ cursorSecret: 'bench', retain: { ms: 1, bytes: 2 ** 30 } })
  feed.publish(snapshot, 0)
  const app = Fastify()
  app.get('/', (_, reply) => {
    const { rows } = pageOf(feed, {})
    reply.hijack()
    reply.raw.writeHead(200, { 'content-type': 'application/json' })
    reply.raw.write('[')
    for (const piece of rows) reply.raw.write(piece)
    reply.raw.end(']')
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const address = app.server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const idle = await load(port)

  const host = createBuilderHost()
  const slices = slicesOf(MERGED_WHILE_SERVING)
  const lenient = { policy: 'lenient' as const, providers: {} }
  let builds = 0
  let busy = true
  const building = (async () => {
    while (busy) {
      const account = `layer ${builds}` // a layer of its own has no past: everything is merged
      const fresh = slices.map((slice) => ({ ...slice, upstream: `${slice.upstream}-${builds}` }))
      const built = await host.build({ account, slices: fresh, providers: [], policy: lenient, now: 0 })
      await host.forget(account)
      feed.publish(built.snapshot, builds)
      builds += 1
    }
  })()
  const merging = await load(port)
  busy = false
  await building
  await host.close()
  await app.close()
  table.push(
    ['request p50 / p99 idle, ms', `${round(idle.p50)} / ${round(idle.p99)}`, ''],
    [
      `request p50 / p99 while ${MERGED_WHILE_SERVING} listings are merged, ms`,
      `${round(merging.p50)} / ${round(merging.p99)}`,
      '',
    ],
    ['p99 while merging against idle', `${round(merging.p99 / idle.p99)}x`, '2x'],
  )
}

const slices = slicesOf(SIGNALS)
const snapshot = merging(slices)
memory(snapshot, slices)
reading(snapshot)
changing(snapshot, slices)
await serving(snapshot)

const width = Math.max(...table.map(([what]) => what.length))
console.log(`${SIGNALS} signals from ${UPSTREAMS} upstreams, Node ${process.version}`)
for (const [what, measured, bar] of table) {
  console.log(`${what.padEnd(width)}  ${measured.padStart(14)}${bar && `   (bar ${bar})`}`)
}
