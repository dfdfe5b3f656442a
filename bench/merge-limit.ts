/**
 * The least that merging can cost, stage by stage, each alone in a plain loop: a listing's text, one pass over it, one
 * look-up for what comes again, four hashes, and a row of its length in new memory. On one core, and on two at once.
 */
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { createRowFinder, type Slab, slabRow } from '../src/upstreams/rows/slab.js'
import { findMembers, placesRoom } from '../src/upstreams/rows/written.js'

const THREADS = 2
const CHUNK = 8 * 1024 * 1024
const KEY_LENGTH = 60 // of the texts behind a signal's key and its offer's handle
const PRICES_LENGTH = 250

type Stage = [name: string, work: (texts: readonly string[], rows: Slab) => void]

const decoder = new TextDecoder()
const textsOf = (rows: Slab) =>
  Array.from({ length: rows.count }, (_, row) => decoder.decode(slabRow(rows, row)))

function eachHashed(texts: readonly string[]): void {
  const words = new Uint32Array(12)
  for (const text of texts) {
    for (let at = 0; at < 2; at += 1) hash('sha256', text.slice(at, at + KEY_LENGTH), 'binary')
    hash('sha256', text, 'binary')
    hash('sha256', words, 'binary')
  }
}

/** Held, so that each run writes into memory that no run before it has touched: the system gives that page by page. */
const written: Buffer[] = []

function eachWritten(texts: readonly string[]): void {
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

function eachLookedUp(texts: readonly string[]): void {
  const known = new Map<string, number>()
  for (const text of texts) known.set(text.slice(-PRICES_LENGTH, -PRICES_LENGTH / 2), 1)
}

function eachPassed(_: readonly string[], rows: Slab): void {
  const places = placesRoom()
  const finder = createRowFinder(rows)
  for (let row = 0; row < rows.count; row += 1)
    findMembers(
      finder.memoryOf(row),
      finder.startOf(row),
      finder.startOf(row) + (rows.length[row] as number),
      places,
    )
}

const STAGES: readonly Stage[] = [
  ['its text', (_, rows) => void textsOf(rows)],
  ['one pass over its members', eachPassed],
  ['one look-up', eachLookedUp],
  ['four hashes', eachHashed],
  ['its row in new memory', eachWritten],
]

/** What merging did before it stopped parsing, for comparison. */
const PARSING: Stage = ['(JSON.parse alone)', (texts) => texts.forEach((text) => void JSON.parse(text))]

function timed([name, work]: Stage, texts: readonly string[], rows: Slab) {
  work(texts, rows) // warm
  const startedAt = performance.now()
  work(texts, rows)
  return { name, seconds: (performance.now() - startedAt) / 1_000 }
}

/** Seconds of all stages for the rows of a slab. */
function leastWork(rows: Slab, print = false): number {
  const texts = textsOf(rows)
  const of = (stage: Stage) => {
    const { name, seconds } = timed(stage, texts, rows)
    if (print) console.log(`  least work, ${name}: ${((seconds / rows.count) * 1e6).toFixed(2)} us a listing`)
    return seconds
  }
  const sum = STAGES.reduce((total, stage) => total + of(stage), 0)
  if (print) of(PARSING)
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

/** A thread that parses and writes all rows of a slab, again and again, until it is terminated. */
export async function startRewriting(rows: Slab): Promise<Worker> {
  const thread = start({ rows, goesOn: true })
  await once(thread, 'message')
  return thread
}

/** Listings a second of one thread, and of two at once. */
export async function mergeLimit(rows: Slab): Promise<{ one: number; two: number }> {
  const ofOne = rows.count / leastWork(rows, true)
  const threads = Array.from({ length: THREADS }, () => start({ rows, goesOn: false }))
  const seconds = await Promise.all(
    threads.map((thread) => new Promise<number>((resolve) => thread.once('message', resolve))),
  )
  return { one: ofOne, two: (THREADS * rows.count) / Math.max(...seconds) }
}

if (!isMainThread) {
  const { rows, goesOn } = workerData as Order
  if (!goesOn) parentPort?.postMessage(leastWork(rows))
  while (goesOn) {
    rewrite(rows)
    parentPort?.postMessage(0)
  }
}
