import fc from 'fast-check'
import { test } from 'tap'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import { proven } from '../support/proven.js'
import { anyWorld } from './arbitrary.js'
import { everything } from './everything.js'
import { judgeThat, listing, sliceOf } from './world.js'

test('an incremental build gives what a build from scratch gives, to the byte', (t) => {
  proven(
    t,
    8,
    fc.property(fc.array(anyWorld, { minLength: 2, maxLength: 4 }), (worlds) => {
      let previous: Snapshot | undefined
      for (const { slices, judge } of worlds) {
        const scratch = buildSnapshot({ slices, judge })
        previous = buildSnapshot({ ...(previous ? { previous } : {}), slices, judge })
        if (everything(previous) !== everything(scratch)) throw new Error('the builds differ')
      }
    }),
  )
  t.end()
})

test('only signals whose listings, verdicts or definition changed are merged again', (t) => {
  const asked: string[] = []
  const judge = (stamp: string) =>
    judgeThat((domain) => ({
      stamp: domain === 'b.example' ? stamp : '',
      decide: (id) => {
        asked.push(id)
        return { outcome: 'authorized', entries: [0] }
      },
    }))
  const rows = ['a1', 'a2', 'a3'].map((id) => listing(id, {}, 'a.example'))
  const others = [listing('b1', {}, 'b.example')]
  const first = buildSnapshot({
    slices: [sliceOf('north', rows), sliceOf('south', others)],
    judge: judge('1'),
  })
  t.same(asked.splice(0).sort(), ['a1', 'a2', 'a3', 'b1'])

  const moved = [
    listing('a9', {}, 'a.example'),
    ...rows.slice(1),
    { ...rows[0], name: 'New' } as (typeof rows)[0],
  ]
  const slices = [sliceOf('north', moved), sliceOf('south', others)]
  const second = buildSnapshot({ previous: first, slices, judge: judge('1') })
  t.same(asked.splice(0).sort(), ['a1', 'a9'])

  buildSnapshot({ previous: second, slices, judge: judge('2') })
  t.same(asked.splice(0).sort(), ['b1'])
  t.end()
})

test('a build in which nothing changed keeps every column, and the slices that came last', (t) => {
  const judge = judgeThat()
  const rows = [listing('a'), listing('b')]
  const first = buildSnapshot({ slices: [sliceOf('north', rows)], judge })
  const again = sliceOf('north', rows)
  const second = buildSnapshot({ previous: first, slices: [again], judge })
  t.equal(second.rows, first.rows)
  t.equal(second.id, first.id)
  t.equal(second.slices[0]?.slice, again)
  t.end()
})

test('words that no signal has any more are forgotten once they are most, and not before', (t) => {
  const judge = judgeThat()
  const named = (name: (at: number) => string) =>
    sliceOf(
      'north',
      Array.from({ length: 300 }, (_, at) => listing(`s${at}`, { data_provider: name(at) })),
    )
  const first = buildSnapshot({ slices: [named((at) => `of ${at}`)], judge })
  const half = named((at) => (at < 140 ? 'Common' : `of ${at}`))
  const second = buildSnapshot({ previous: first, slices: [half], judge })
  t.equal(second.facts.providers.length, first.facts.providers.length + 1)
  const third = buildSnapshot({ previous: second, slices: [named(() => 'Other')], judge })
  t.same(third.facts.providers, ['', 'other'], 'the empty word stays the first')
  t.end()
})

test('a listing that an upstream sends twice stays while one of the two does', (t) => {
  const judge = judgeThat()
  const [a, b] = [listing('a'), listing('b')]
  let previous: Snapshot | undefined
  for (const rows of [
    [a, a],
    [a, a, b],
    [b, a, a],
    [b, a],
  ]) {
    previous = buildSnapshot({ ...(previous ? { previous } : {}), slices: [sliceOf('north', rows)], judge })
    t.equal(previous.shown.length, rows.includes(b) ? 2 : 1)
    t.equal(previous.offers.row.length, rows.length)
  }
  t.end()
})

test('rows of the past do not pile up, in small builds or large', (t) => {
  const judge = judgeThat()
  for (const [signals, builds] of [
    [200, 100],
    [1_000, 40],
  ] as const) {
    const rows = Array.from({ length: signals }, (_, n) => listing(`s${n}`))
    let previous: Snapshot | undefined
    let most = 0
    for (let build = 0; build < builds; build += 1) {
      for (let at = build; at < signals; at += builds) {
        rows[at] = { ...(rows[at] as (typeof rows)[0]), name: `Signal of build ${build}` }
      }
      previous = buildSnapshot({ ...(previous ? { previous } : {}), slices: [sliceOf('north', rows)], judge })
      const alive = previous.rows.length.reduce((sum, length) => sum + length + 1, 0)
      const held = previous.rows.chunks.reduce((sum, chunk) => sum + chunk.buffer.byteLength, 0)
      most = Math.max(most, held / alive)
    }
    t.ok(most < 1.5, `${most.toFixed(2)} bytes were held for each that is alive`)
    t.ok((previous?.rows.chunks.length ?? 0) < 50)
  }
  t.end()
})
