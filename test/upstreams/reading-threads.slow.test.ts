/**
 * The threads in which answers are read: however many there are, and whichever of them die in the middle of a page, what is
 * read are the rows that were sent, each once, though the answers pass through a few pieces of lent memory.
 */
import { once } from 'node:events'
import type { Worker } from 'node:worker_threads'
import { type Test, test } from 'tap'
import { giveBackMoved, lend } from '../../src/process/memory.js'
import { createPool } from '../../src/process/thread-pool.js'
import { type ReadAnswer, type ReaderJob, readMessages } from '../../src/upstreams/agent/answer.js'
import { type Collected, createCollector } from '../../src/upstreams/rows/new-slice.js'
import { slabRow } from '../../src/upstreams/rows/slab.js'
import { row } from '../support/upstream-world.js'

const AGENTS = 6
const PAGES = 5
const DEATHS = 4
const PAGE = 100 // rows of a kilobyte: answers of the size that is lent memory

/** One page of an agent as it comes; no two are of one length. */
function pageOf(agent: number, page: number): Buffer {
  const signals = Array.from({ length: PAGE }, (_, at) =>
    row(page * PAGE + at, { description: `${agent} ${page} ${at} ${'x'.repeat(600 + agent * 20 + page)}` }),
  )
  const result = { structuredContent: { status: 'completed', signals } }
  return Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result }))
}

const PAGES_OF = Array.from({ length: AGENTS }, (_, agent) =>
  Array.from({ length: PAGES }, (_, page) => pageOf(agent, page)),
)

const jobOf = (message: Uint8Array) => ({ messages: [message], id: 1, as: 'mcp' as const, bounds: {} })

function rowsOf(read: ReadAnswer) {
  if (read.kind !== 'answer' || read.outcome.kind !== 'answer') throw new Error(JSON.stringify(read))
  return read.outcome.rows
}

/** What one agent's rows are, read here. */
async function readHere(pages: readonly Buffer[]): Promise<Collected> {
  const collector = createCollector()
  for (const page of pages) {
    await collector.take(rowsOf(readMessages(jobOf(Uint8Array.from(page)))))
  }
  return collector.finish()
}

const READ_HERE = await Promise.all(PAGES_OF.map(readHere))

type Pool = ReturnType<typeof createPool<ReaderJob, ReadAnswer>>

function poolOf(t: Test, size: number): Pool {
  const code = new URL('../../src/upstreams/agent/answer.js', import.meta.url)
  const pool: Pool = createPool({ code, size, heapMb: 64 })
  t.teardown(() => pool.close())
  return pool
}

/** A page in lent memory, read in a thread; again where its thread died. */
async function readThere(pool: Pool, agent: number, page: Buffer): Promise<ReadAnswer> {
  for (;;) {
    const message = lend(page.byteLength).subarray(0, page.byteLength)
    message.set(page)
    try {
      return await pool.run(`${agent}`, jobOf(message), [message.buffer as ArrayBuffer], page.byteLength)
    } catch (error) {
      if (!String(error).includes('its thread ended')) throw error
    }
  }
}

/** All agents at once, as walks do it: the next page is asked for while the rows of this one are stored. */
function readAll(pool: Pool): Promise<Collected[]> {
  const walk = async (agent: number) => {
    const collector = createCollector()
    const [first, ...others] = PAGES_OF[agent] as [Buffer, ...Buffer[]]
    let coming = readThere(pool, agent, first)
    for (const page of [...others, undefined]) {
      const rows = rowsOf(await coming)
      if (page) coming = readThere(pool, agent, page)
      await collector.take(rows)
      giveBackMoved(rows.bytes)
    }
    return collector.finish()
  }
  return Promise.all(PAGES_OF.map((_, agent) => walk(agent)))
}

const textOf = ({ rows }: Collected) =>
  Array.from({ length: rows.count }, (_, at) => Buffer.from(slabRow(rows, at)).toString()).join('\n')

function assertRead(t: Test, collected: readonly Collected[]): void {
  for (const [agent, { digests, domains, dropped, ...rest }] of collected.entries()) {
    const here = READ_HERE[agent] as Collected
    t.equal(
      textOf({ digests, domains, dropped, ...rest }) === textOf(here),
      true,
      `the rows of agent ${agent}`,
    )
    t.same({ digests, domains, dropped }, { digests: here.digests, domains: here.domains, dropped: {} })
  }
}

for (const size of [1, 4]) {
  test(`rows that ${size} threads read are those that were sent`, async (t) => {
    assertRead(t, await readAll(poolOf(t, size)))
  })
}

test('threads that die in the middle of pages take nothing along but these pages, and others take their place', async (t) => {
  let deaths = 0
  const started: Worker[] = []
  /** The first threads that are given a third page die with it, which was moved there already. */
  const watch = (worker: Worker) => {
    started.push(worker)
    const { postMessage } = worker
    let pages = 0
    worker.postMessage = (...message: Parameters<Worker['postMessage']>) => {
      postMessage.apply(worker, message)
      pages += 1
      if (pages !== 3 || deaths === DEATHS) return
      deaths += 1
      void worker.terminate()
    }
  }
  process.on('worker', watch)
  t.teardown(() => process.off('worker', watch))
  const pool = poolOf(t, 3)
  assertRead(t, await readAll(pool))
  t.equal(deaths, DEATHS)
  const living = started.filter(({ threadId }) => threadId > 0)
  t.ok(living.length <= 3, `${living.length} threads live`)
  await Promise.all([pool.close(), ...living.map((worker) => once(worker, 'exit'))])
})

test('a segment has one number, whichever thread read its row', async (t) => {
  const page = pageOf(0, 0)
  const here = rowsOf(readMessages(jobOf(Uint8Array.from(page))))
  const there = rowsOf(await readThere(poolOf(t, 1), 0, page))
  t.equal(new Set(here.segments).size, PAGE)
  t.same(there.segments, here.segments)
})
