/**
 * What validating listings costs, in a thread that does nothing else, as the one that reads answers: code that a thread has also
 * used for other things is compiled otherwise.
 */
import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { ROW_BYTES } from '../src/upstreams/rows/listing.js'
import { createPlainRows } from '../src/upstreams/rows/plain-row.js'
import { type Slab, slabRow } from '../src/upstreams/rows/slab.js'
import { arePlain } from '../src/upstreams/rows/written.js'
import { PAGE } from './feed-world.js'

const WARM = 3
const ROUNDS = 5 // the middle one counts

/** The listings of a slab as pages give them: one after another, with commas between them. */
function pagesOf(rows: Slab): Buffer[] {
  const listings = Array.from({ length: rows.count }, (_, row) => Buffer.from(slabRow(rows, row)).toString())
  return Array.from({ length: Math.ceil(rows.count / PAGE) }, (_, page) => {
    return Buffer.from(listings.slice(page * PAGE, (page + 1) * PAGE).join())
  })
}

/** Looks at a page as at an answer of an agent: at its text as a whole, then at each row while its end is looked for. */
function validatePage(page: Buffer): void {
  const { endOf } = createPlainRows(page, ROW_BYTES)
  const isPlain = arePlain([page])
  for (let at = 0; at < page.byteLength; ) {
    const end = isPlain ? endOf(at) : 0
    if (end === 0) throw new Error('a bench listing is not valid')
    at = end + ','.length
  }
}

/** Ms of CPU for each listing of a slab, while no other thread works. */
export async function validating(rows: Slab): Promise<number> {
  const thread = new Worker(new URL(import.meta.url), { workerData: rows })
  const [ms] = (await once(thread, 'message')) as [number]
  return ms
}

if (!isMainThread) {
  const rows = workerData as Slab
  const pages = pagesOf(rows)
  const costs = Array.from({ length: WARM + ROUNDS }, () => {
    const before = process.cpuUsage()
    pages.forEach(validatePage)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000 / rows.count
  })
  const middle = costs.slice(WARM).sort((a, b) => a - b)[ROUNDS >> 1]
  parentPort?.postMessage(middle)
}
