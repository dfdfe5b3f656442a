import fc from 'fast-check'
import { test } from 'tap'
import { changesBetween } from '../../src/feed/changes.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { rowAt, type Snapshot } from '../../src/snapshot/snapshot.js'
import { proven } from '../support/proven.js'
import { anyWorld } from './arbitrary.js'
import { judgeThat, listing, sliceOf } from './world.js'

const snapshotOf = (...rows: ReturnType<typeof listing>[]) =>
  buildSnapshot({ slices: [sliceOf('north', rows)], judge: judgeThat() })

test('between two snapshots every signal is created, updated, priced or removed, or nothing happened to it', (t) => {
  const dearer = [{ pricing_option_id: 'po', model: 'cpm' as const, cpm: 9, currency: 'USD' }]
  const before = snapshotOf(listing('stays'), listing('goes'), listing('moves'), listing('costs'))
  const after = snapshotOf(
    listing('stays'),
    listing('comes'),
    listing('moves', { name: 'New', coverage_percentage: 1, pricing_options: dearer }),
    listing('costs', { pricing_options: dearer }),
  )
  const changes = [...changesBetween(before, after)].sort((a, b) => (a.kind < b.kind ? -1 : 1))
  t.match(changes, [
    { kind: 'created', ref: { signal_id: 'comes' } },
    { kind: 'priced', ref: { signal_id: 'costs' } },
    { kind: 'removed', ref: { signal_id: 'goes' }, handle: /^sig_/ },
    {
      kind: 'updated',
      ref: { signal_id: 'moves' },
      fields: ['coverage_percentage', 'name', 'pricing_options'],
    },
  ])
  t.equal(changes.length, 4)
  t.same([...changesBetween(after, after)], [])
  t.end()
})

function mirrorOf(snapshot: Snapshot): Map<string, string> {
  const rows = [...snapshot.shown].map((entry) => rowAt(snapshot, entry))
  return new Map(rows.map((row) => [row.signal_agent_segment_id as string, JSON.stringify(row)]))
}

test('a mirror that applies the changes is the new snapshot', (t) => {
  proven(
    t,
    200,
    fc.property(anyWorld, anyWorld, (one, two) => {
      const before = buildSnapshot(one)
      const after = buildSnapshot({ previous: before, ...two })
      const mirror = mirrorOf(before)
      for (const change of changesBetween(before, after)) {
        if (change.kind === 'removed') mirror.delete(change.handle)
        else mirror.set(change.handle, JSON.stringify(rowAt(after, change.entry)))
      }
      const expected = mirrorOf(after)
      return (
        mirror.size === expected.size && [...expected].every(([handle, row]) => mirror.get(handle) === row)
      )
    }),
  )
  t.end()
})
