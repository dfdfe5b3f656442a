/**
 * The least that merging can cost as long as rows are parsed and written: each listing's bytes through `JSON.parse`, one
 * `JSON.stringify` and one hash. On one core, and on two at once.
 */
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { type Slab, slabRow } from '../src/upstreams/rows/slab.js'

const THREADS = 2

/** Writes every row of a slab anew; gives the seconds. */
function rewrite(rows: Slab): number {
  const startedAt = performance.now()
  const decoder = new TextDecoder()
  for (let row = 0; row < rows.count; row += 1) {
    const listing = JSON.parse(decoder.decode(slabRow(rows, row)))
    hash('sha256', JSON.stringify(listing), 'binary')
  }
  return (performance.now() - startedAt) / 1_000
}

type Order = { rows: Slab; goesOn: boolean }

const start = (order: Order) => new Worker(new URL(import.meta.url), { workerData: order })

/** A thread that writes all rows of a slab anew, again and again, until it is terminated. */
export async function startRewriting(rows: Slab): Promise<Worker> {
  const thread = start({ rows, goesOn: true })
  await once(thread, 'message')
  return thread
}

/** Listings a second of one thread, and of two at once. */
export async function mergeLimit(rows: Slab): Promise<{ one: number; two: number }> {
  const ofOne = rows.count / rewrite(rows)
  const threads = Array.from({ length: THREADS }, () => start({ rows, goesOn: false }))
  const seconds = await Promise.all(
    threads.map((thread) => new Promise<number>((resolve) => thread.once('message', resolve))),
  )
  return { one: ofOne, two: (THREADS * rows.count) / Math.max(...seconds) }
}

if (!isMainThread) {
  const { rows, goesOn } = workerData as Order
  do parentPort?.postMessage(rewrite(rows))
  while (goesOn)
}
