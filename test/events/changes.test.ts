import fc from 'fast-check'
import { test } from 'tap'
import type { ActivationKey } from '../../src/adcp/signal.js'
import { changesBetween, createEventIds, eventsBetween } from '../../src/events/changes.js'
import { createFeed } from '../../src/feed/feed.js'
import { drained, PORTION } from '../../src/process/portions.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { rowAt, type Snapshot } from '../../src/snapshot/snapshot.js'
import { anyWorld } from '../feed/arbitrary.js'
import { buyer, judgeThat, listing, sliceOf } from '../feed/world.js'
import { proven } from '../support/proven.js'

const snapshotOf = (...rows: ReturnType<typeof listing>[]) =>
  buildSnapshot({ slices: [sliceOf('north', rows)], judge: judgeThat() })

const all = (before: Snapshot, after: Snapshot, most = 1_000) => drained(changesBetween(before, after, most))

const idOf = (snapshot: Snapshot, entry: number) =>
  (rowAt(snapshot, entry).signal_ref as { signal_id: string }).signal_id

test('between two snapshots every signal is created, updated, priced or removed, or nothing happened to it', (t) => {
  const dearer = [{ pricing_option_id: 'po', model: 'cpm' as const, cpm: 9, currency: 'USD' }]
  const live = (segment_id: string) => [
    {
      type: 'platform' as const,
      platform: 'p',
      is_live: true,
      activation_key: { type: 'segment_id', segment_id } as ActivationKey,
    },
  ]
  const before = snapshotOf(
    listing('stays'),
    listing('goes'),
    listing('moves'),
    listing('costs'),
    listing('keyed', { deployments: live('a') }),
  )
  const after = snapshotOf(
    listing('stays'),
    listing('comes'),
    listing('moves', { name: 'New', coverage_percentage: 1, pricing_options: dearer }),
    listing('costs', { pricing_options: dearer }),
    listing('keyed', { deployments: live('b') }),
  )
  const { changes, count, isWhole } = all(before, after)
  const found = changes.map((change) => [
    change.kind,
    change.kind === 'removed' ? idOf(before, change.before) : idOf(after, change.after),
  ])
  t.same(found.sort(), [
    ['created', 'comes'],
    ['keyed', 'keyed'],
    ['priced', 'costs'],
    ['removed', 'goes'],
    ['updated', 'moves'],
  ])
  t.equal(count, 4, 'keys are not counted')
  t.ok(isWhole)
  t.match(all(before, after, 2), { count: 4, isWhole: false, changes: { length: 2 } })
  t.same(all(after, after), { count: 0, changes: [], isWhole: true })
  t.end()
})

test('signals that leave are looked at in portions, as those that come', (t) => {
  const one = snapshotOf(listing('s0'))
  const many = snapshotOf(...Array.from({ length: 2 * PORTION }, (_, at) => listing(`s${at}`)))
  const stopsOf = (before: Snapshot, after: Snapshot) => [...changesBetween(before, after, 0)].length
  t.ok(stopsOf(one, many) > 2, `${stopsOf(one, many)} portions`)
  t.ok(stopsOf(many, one) > 2, `${stopsOf(many, one)} portions`)
  t.end()
})

test('a new version without a change that the reader sees is told as one', (t) => {
  const feed = createFeed({ cursorSecret: 'secret', retain: { ms: 1, bytes: 2 ** 30 } })
  feed.publish(snapshotOf(listing('stays')), 0)
  const seen = feed.see({}, buyer)
  if (!seen) throw new Error('nothing was published')
  const [before, after] = ['a', 'b'].map((token) => ({ ...seen, tokens: { feed: token, pricing: token } }))
  if (!before || !after) throw new Error('two of them')
  const context = { appliesTo: { scope: 'public' }, newId: createEventIds(() => 0).next, at: 0 } as const
  const none = { count: 0, changes: [], isWhole: true }
  t.match(drained(eventsBetween(before, after, none, context)), [
    { type: 'wholesale_feed.bulk_change', previous: before.tokens, version: after.tokens },
  ])
  t.end()
})

function mirrorOf(snapshot: Snapshot): Map<string, string> {
  const rows = [...snapshot.shown].map((entry) => rowAt(snapshot, entry))
  return new Map(rows.map((row) => [row.signal_agent_segment_id as string, JSON.stringify(row)]))
}

test('a mirror that applies the changes is the new snapshot', (t) => {
  proven(
    t,
    100,
    fc.property(anyWorld, anyWorld, (one, two) => {
      const before = buildSnapshot(one)
      const after = buildSnapshot({ previous: before, ...two })
      const mirror = mirrorOf(before)
      const handleOf = (snapshot: Snapshot, entry: number) =>
        rowAt(snapshot, entry).signal_agent_segment_id as string
      for (const change of all(before, after).changes) {
        if (change.kind === 'removed') mirror.delete(handleOf(before, change.before))
        else mirror.set(handleOf(after, change.after), JSON.stringify(rowAt(after, change.after)))
      }
      const expected = mirrorOf(after)
      return (
        mirror.size === expected.size && [...expected].every(([handle, row]) => mirror.get(handle) === row)
      )
    }),
  )
  t.end()
})
