/** Rows in chunks of any size, some of them dead: dropping worn chunks moves no byte of a row that lives. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import type { Rows } from '../../src/snapshot/columns.js'
import { unworn } from '../../src/snapshot/join.js'
import { createChunks } from '../../src/upstreams/rows/slab.js'
import { proven } from '../support/proven.js'

const KIB = 1024

/** A row's bytes, and whether it is still one of the snapshot; 0: an entry without a row. */
const row = fc.record({
  bytes: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 300 }), fc.integer({ min: KIB, max: 40 * KIB })),
  isAlive: fc.boolean(),
})
const written = fc.array(fc.array(row, { maxLength: 30 }), { minLength: 1, maxLength: 40 })

/** As builds wrote them, each to chunks of its own. */
function rowsOf(builds: readonly (readonly { bytes: number; isAlive: boolean }[])[]): Rows {
  const chunks: Uint8Array[] = []
  const places: { chunk: number; start: number; length: number }[] = []
  let count = 0
  for (const rows of builds) {
    const own = createChunks(4 * KIB)
    for (const { bytes, isAlive } of rows) {
      if (bytes === 0) {
        if (isAlive) places.push({ chunk: 0, start: 0, length: 0 })
        continue
      }
      const { buffer, chunk, start } = own.room(bytes + 1)
      buffer.fill(++count, start, start + bytes + 1)
      own.take(bytes + 1)
      if (isAlive) places.push({ chunk: chunks.length + chunk, start, length: bytes })
    }
    chunks.push(...own.finish())
  }
  const column = <T>(
    make: { from(values: Iterable<number>): T },
    of: (place: (typeof places)[number]) => number,
  ) => make.from(places.map(of))
  const none = () => 0
  return {
    chunks,
    chunkOf: column(Uint16Array, ({ chunk }) => chunk),
    start: column(Uint32Array, ({ start }) => start),
    length: column(Uint32Array, ({ length }) => length),
    head: column(Uint32Array, none),
    fields: column(Uint16Array, none),
    deployments: column(Uint32Array, none),
  } as unknown as Rows
}

const bytesAt = ({ chunks, chunkOf, start, length }: Rows, entry: number) => {
  const from = start[entry] as number
  return chunks[chunkOf[entry] as number]?.subarray(from, from + (length[entry] as number))
}

/** A chunk with one row that takes a share of it. */
const chunksOf = (bytes: number, shares: readonly number[]) => {
  const length = Uint32Array.from(shares, (share) => bytes * share - 1)
  const chunks = shares.map(() => new Uint8Array(bytes))
  const chunkOf = Uint16Array.from(shares.keys())
  return { chunks, chunkOf, start: new Uint32Array(shares.length), length } as unknown as Rows
}
const kept = (before: Rows, after: Rows) => before.chunks.map((chunk) => after.chunks.includes(chunk))

test('the most worn chunks are dropped first, as far as what lives in them may be copied', (t) => {
  const MIB = KIB * KIB
  const rows = chunksOf(12 * MIB, [0.6875, 0.5, 0.75, 0.625])
  t.same(kept(rows, unworn(rows, 0)), [true, false, true, false])
  t.same(kept(rows, unworn(rows, 6 * MIB)), [false, false, true, false], 'more where much is new')
  const small = chunksOf(4 * KIB, Array<number>(32).fill(1))
  t.equal(unworn(small, 0), small)
  const more = chunksOf(4 * KIB, Array<number>(33).fill(1))
  t.ok(unworn(more, 0).chunks.length < 4, 'too many small ones become one')
  t.end()
})

test('rows stay as they were when the chunks that they lie in are dropped', (t) => {
  let rewritten = 0
  const property = fc.property(written, (builds) => {
    const before = rowsOf(builds)
    const after = unworn(before, 0)
    if (after !== before) rewritten += 1
    for (let entry = 0; entry < before.length.length; entry += 1) {
      const length = before.length[entry] as number
      assert.equal(after.length[entry], length)
      if (length > 0) assert.deepEqual(bytesAt(after, entry), bytesAt(before, entry))
    }
    const used = (rows: Rows) => rows.chunks.reduce((sum, { byteLength }) => sum + byteLength, 0)
    assert(used(after) <= used(before))
  })
  t.doesNotThrow(() => proven(t, 50, property))
  t.ok(rewritten > 25, `${rewritten} times chunks were dropped`)
  t.end()
})
