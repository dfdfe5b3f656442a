/**
 * Where the members of a row stand is kept from reading it to merging it. A feed built with that is the feed built from the
 * same rows without it, and what is kept is only of rows that are kept.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { createBuilderHost } from '../../src/snapshot/builder-host.js'
import { createCollector } from '../../src/upstreams/rows/new-slice.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import { slabRow } from '../../src/upstreams/rows/slab.js'
import { type Slice, withoutPlaces } from '../../src/upstreams/rows/slice.js'
import { hostileText } from '../support/hostile-text.js'
import { proven } from '../support/proven.js'
import { judgeThat, listing, sliceOfTexts } from './world.js'

const PAGE = 3

const anyRow = fc.record({
  id: fc.constantFrom('s1', 's2', 's3', 's4', 's5', 's6', 's7'),
  name: fc.oneof(fc.constantFrom('Auto', '日本, {', ']}'), hostileText),
  methodology: fc.constantFrom(undefined, 'observed', 'guessed'),
  space: fc.constantFrom('', '', '', ' '),
  more: fc.constantFrom(undefined, undefined, { unknown: 1 }),
})

type Row = typeof anyRow extends fc.Arbitrary<infer T> ? T : never

const textOf = ({ id, name, methodology, space, more }: Row) =>
  JSON.stringify({ ...listing(id), name, methodology, ...more }).replace(',"name"', `,${space}"name"`)

async function readSlice(upstream: string, texts: readonly string[]): Promise<Slice> {
  const collector = createCollector()
  for (let at = 0; at < texts.length; at += PAGE) {
    await collector.take(readRows(texts.slice(at, at + PAGE).map((text) => Buffer.from(text))))
  }
  const { rows, digests } = collector.finish()
  return { ...sliceOfTexts(upstream, []), rows, digests }
}

const judge = judgeThat()
const bytesOf = (slices: readonly Slice[]) => {
  const { id, rows, digests } = buildSnapshot({ slices, judge })
  return { id, chunks: rows.chunks.map((chunk) => Buffer.from(chunk).toString()), digests }
}

test('a feed is the same with and without the places that were kept of its rows', async (t) => {
  let placed = 0
  const upstream = fc.array(anyRow, { maxLength: 9 })
  const property = fc.asyncProperty(upstream, upstream, async (first, second) => {
    const slices = [await readSlice('a', first.map(textOf)), await readSlice('b', second.map(textOf))]
    for (const { rows } of slices) {
      if (!rows.places) continue
      placed += 1
      assert.equal(rows.places.ends.length, rows.count)
    }
    assert.deepEqual(bytesOf(slices), bytesOf(slices.map(withoutPlaces)))
  })
  await proven(t, 15, property)
  t.ok(placed > 9, `${placed} slices kept places`)
})

test('rows that were not read for their places are merged from their text', async (t) => {
  const escaped = JSON.stringify(listing('s1', { name: 'a "name"' }))
  const plain = JSON.stringify(listing('s2'))
  const slice = await readSlice('a', [escaped, plain, escaped.replaceAll('s1', 's3')])
  t.same(
    Array.from(slice.rows.places?.ends ?? []).map((end, row, ends) => end > (ends[row - 1] ?? 0)),
    [false, true, false],
  )
  t.equal(Buffer.from(slabRow(slice.rows, 1)).toString(), plain)
  t.equal(buildSnapshot({ slices: [slice], judge }).shown.length, 3)
})

test('a generation that is kept does not keep places', async (t) => {
  const slice = await readSlice('a', [JSON.stringify(listing('s1'))])
  const host = createBuilderHost()
  t.teardown(host.close)
  const request = { providers: [], policy: { policy: 'lenient' as const, providers: {} }, now: 0 }
  const { snapshot } = await host.build({ ...request, slices: [slice] })
  t.ok(slice.rows.places)
  t.same(
    snapshot.slices.map(({ slice: { rows } }) => rows),
    [withoutPlaces(slice).rows],
  )
  const again = await host.build({ ...request, slices: [slice] })
  t.equal(again.snapshot.id, snapshot.id)
  t.equal(snapshot.shown.length, 1)
})
