/**
 * The least that merging can cost, stage by stage, each alone in a plain loop, on one core and on two at once: a listing's key
 * is hashed and sorted, its row is brought near and cut out, what comes again is looked up, and a row of its length and its
 * columns go to new memory. What a listing costs in src/snapshot beyond the sum is ours.
 */
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { giveWay } from '../src/process/threads.js'
import { specsOf, WRITTEN } from '../src/snapshot/columns.js'
import { createRowFinder, type Slab, slabRow } from '../src/upstreams/rows/slab.js'
import { locateMembers, MEMBER, membersRoom } from '../src/upstreams/rows/written.js'

const THREADS = 2
const CHUNK = 8 * 1024 * 1024
const KEY_LENGTH = 60 // of the texts behind a signal's key and its offer's handle
const CORE_LENGTH = 700 // of a row without prices
const AHEAD = 32 // rows that are brought near at once
const MOST_ROWS = 2 ** 20 // so that a row and 32 bits of its key fit into one number
const WORD = 4 // bytes that are looked at in one step
/** How many values a listing of the bench has in a column. */
const EACH = { entry: 1, deployments: 2, offers: 1 }
/** What few distinct texts are the values of. */
const COMING_AGAIN = [
  MEMBER.value_type,
  MEMBER.signal_type,
  MEMBER.data_provider,
  MEMBER.coverage_percentage,
  MEMBER.deployments,
  MEMBER.pricing_options,
  MEMBER.data_sources,
  MEMBER.methodology,
  MEMBER.countries,
]

/** Listings, and what earlier stages make of them. */
type Sample = {
  readonly rows: Slab
  readonly texts: readonly string[]
  /** The first 32 bits of each key. */
  readonly keys: Uint32Array
  /** The rows in key order. */
  readonly order: Uint32Array
}

type Stage = [name: string, work: (sample: Sample) => void]

const decoder = new TextDecoder()
const textsOf = (rows: Slab) =>
  Array.from({ length: rows.count }, (_, row) => decoder.decode(slabRow(rows, row)))

function eachSorted({ keys }: Pick<Sample, 'keys'>): Uint32Array {
  const sorted = new Float64Array(keys.length)
  for (let row = 0; row < keys.length; row += 1) sorted[row] = (keys[row] as number) * MOST_ROWS + row
  sorted.sort()
  const order = new Uint32Array(keys.length)
  for (let at = 0; at < order.length; at += 1) order[at] = (sorted[at] as number) % MOST_ROWS
  return order
}

function sampleOf(rows: Slab): Sample {
  const texts = textsOf(rows)
  const keys = Uint32Array.from(texts, (text) => Buffer.from(hash('sha256', text), 'hex').readUInt32BE())
  return { rows, texts, keys, order: eachSorted({ keys }) }
}

/** Rows that follow each other by key lie far from each other. */
function eachBroughtNear({ rows, order }: Sample): void {
  const { touch } = createRowFinder(rows)
  for (let at = 0; at < order.length; at += AHEAD) order.subarray(at, at + AHEAD).forEach(touch)
}

function eachCutOut({ rows }: Sample): void {
  const { memoryOf, startOf } = createRowFinder(rows)
  for (let row = 0; row < rows.count; row += 1) {
    const start = startOf(row)
    memoryOf(row).bytes.toString('utf8', start, start + (rows.length[row] as number))
  }
}

/** The values of members are found by the places that reading left. What a look-up finds is not compared. */
function eachLookedUp({ rows }: Sample): void {
  const known = new Map<number, number>()
  const members = membersRoom()
  const { memoryOf, startOf } = createRowFinder(rows)
  for (let row = 0; row < rows.count; row += 1) {
    const memory = memoryOf(row)
    const start = startOf(row)
    locateMembers(members, memory, start, start + (rows.length[row] as number), row, rows.places)
    for (const member of COMING_AGAIN) {
      const end = members.ends[member] as number
      let number = member
      for (let at = members.starts[member] as number; at + WORD <= end; at += WORD) {
        number = Math.imul(number ^ memory.view.getInt32(at, true), 31)
      }
      if (known.get(number) === undefined) known.set(number, row)
    }
  }
}

/** Of its identity, its offer's handle, its row without prices, and what that row's version is made of. */
function eachHashed({ texts }: Sample): void {
  const words = new Uint32Array(12)
  for (const text of texts) {
    for (let at = 0; at < 2; at += 1) hash('sha256', text.slice(at, at + KEY_LENGTH), 'binary')
    hash('sha256', text.slice(0, CORE_LENGTH), 'binary')
    hash('sha256', words, 'binary')
  }
}

/** Held, so that each run writes into memory that no run before it has touched: the system gives that page by page. */
const written: object[] = []

function eachWritten({ texts }: Sample): void {
  let chunk: Buffer = Buffer.alloc(0)
  let used = 0
  for (const text of texts) {
    if (used + text.length * 3 > chunk.byteLength) {
      chunk = Buffer.from(new SharedArrayBuffer(CHUNK))
      written.push(chunk)
      used = 0
    }
    used += chunk.write(text, used)
  }
}

function eachAppended({ rows }: Sample): void {
  const columns = specsOf(WRITTEN).flatMap(([, spec]) => {
    if (spec.kind === 'list' || spec.kind === 'derived') return []
    const width = spec.kind === 'values' ? EACH[spec.of] * spec.width : 1
    return [{ width, values: spec.make(rows.count * width) }]
  })
  written.push(columns)
  for (let row = 0; row < rows.count; row += 1) {
    for (const { width, values } of columns) {
      for (let at = row * width; at < (row + 1) * width; at += 1) values[at] = row
    }
  }
}

const STAGES: readonly Stage[] = [
  ['its key sorted', eachSorted],
  ['its row brought near, in key order', eachBroughtNear],
  ['its text', eachCutOut],
  [`${COMING_AGAIN.length} look-ups of members that come again`, eachLookedUp],
  ['four hashes', eachHashed],
  ['its row in new memory', eachWritten],
  ['its columns in new memory', eachAppended],
]

/** What merging did before it stopped parsing, for comparison. */
const PARSING: Stage = ['(JSON.parse alone)', ({ texts }) => texts.forEach((text) => void JSON.parse(text))]

function secondsOf([, work]: Stage, sample: Sample): number {
  work(sample) // warm
  const startedAt = performance.now()
  work(sample)
  return (performance.now() - startedAt) / 1_000
}

function secondsPrinted(stage: Stage, sample: Sample): number {
  const seconds = secondsOf(stage, sample)
  console.log(`  least work, ${stage[0]}: ${((seconds / sample.rows.count) * 1e6).toFixed(2)} us a listing`)
  return seconds
}

/** Seconds of all stages for the rows of a slab. */
function leastWork(rows: Slab, of = secondsOf): number {
  const sample = sampleOf(rows)
  const sum = STAGES.reduce((total, stage) => total + of(stage, sample), 0)
  written.length = 0
  return sum
}

/** Parses every row of a slab and writes it anew. */
function rewrite(rows: Slab): void {
  for (let row = 0; row < rows.count; row += 1) {
    const listing = JSON.parse(decoder.decode(slabRow(rows, row)))
    hash('sha256', JSON.stringify(listing), 'binary')
  }
}

type Order = { rows: Slab; goesOn: boolean }

const start = (order: Order) => new Worker(new URL(import.meta.url), { workerData: order })

/** A thread that parses and writes all rows of a slab, again and again, until it is terminated; it gives way as one that merges. */
export async function startRewriting(rows: Slab): Promise<Worker> {
  const thread = start({ rows, goesOn: true })
  await once(thread, 'message')
  return thread
}

/** Listings a second of one thread, and of two at once. */
export async function mergeLimit(rows: Slab): Promise<{ one: number; two: number }> {
  const seconds = leastWork(rows, secondsPrinted)
  secondsPrinted(PARSING, sampleOf(rows))
  const threads = Array.from({ length: THREADS }, () => start({ rows, goesOn: false }))
  const each = await Promise.all(
    threads.map((thread) => new Promise<number>((resolve) => thread.once('message', resolve))),
  )
  return { one: rows.count / seconds, two: (THREADS * rows.count) / Math.max(...each) }
}

if (!isMainThread) {
  const { rows, goesOn } = workerData as Order
  if (goesOn) giveWay()
  else parentPort?.postMessage(leastWork(rows))
  while (goesOn) {
    rewrite(rows)
    parentPort?.postMessage(0)
  }
}
