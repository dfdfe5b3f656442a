import fc from 'fast-check'
import { test } from 'tap'
import { u16, u32 } from '../../src/process/shared-memory.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { createGrowing } from '../../src/snapshot/columns.js'
import { childWeave, type Run, weaveOf, woven, wovenAt } from '../../src/snapshot/join.js'
import { memoryOf } from '../../src/snapshot/snapshot.js'
import { proven } from '../support/proven.js'
import { judgeThat, listing, sliceOf } from './world.js'

test('a new snapshot has the very columns that a change of one price leaves as they were', (t) => {
  const judge = judgeThat()
  const rows = Array.from({ length: 500 }, (_, n) => listing(`s${n}`))
  const before = buildSnapshot({ slices: [sliceOf('north', rows)], judge })
  const dearer = [{ pricing_option_id: 'po', model: 'cpm', cpm: 3, currency: 'USD' }] as const
  const changed = rows.map((row, at) => (at === 7 ? listing('s7', { pricing_options: [...dearer] }) : row))
  const after = buildSnapshot({ previous: before, slices: [sliceOf('north', changed)], judge })
  t.not(after.pricing, before.pricing)
  t.equal(after.structure, before.structure)
  t.equal(after.keys, before.keys)
  t.equal(after.shown, before.shown)
  t.equal(after.digests.structure, before.digests.structure)
  t.equal(after.facts.provider, before.facts.provider)
  t.equal(after.facts.domains, before.facts.domains)
  t.same(
    Object.entries(after.deployments).filter(([name, column]) => {
      return column !== before.deployments[name as keyof typeof before.deployments]
    }),
    [],
  )
  t.same(
    Object.entries(after.offers).filter(([name, column]) => {
      return column !== before.offers[name as keyof typeof before.offers]
    }),
    [],
  )
  const shared = after.rows.chunks.filter((chunk) => before.rows.chunks.includes(chunk))
  t.equal(shared.length, before.rows.chunks.length, 'no row was written again but the changed one')
  t.end()
})

test('a layer whose prices have all moved costs its rows and little else', (t) => {
  const judge = judgeThat()
  const rows = (cpm: number) =>
    Array.from({ length: 1_000 }, (_, n) =>
      listing(`s${n}`, {
        pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
      }),
    )
  const open = buildSnapshot({ slices: [sliceOf('north', rows(2))], judge })
  const account = buildSnapshot({ previous: open, slices: [sliceOf('north', rows(3))], judge })
  const payload = account.rows.length.reduce((sum, length) => sum + length, 0)
  const { added } = memoryOf(account, open)
  t.ok(added < 1.4 * payload, `${added} bytes for ${payload} bytes of rows`)
  t.equal(account.keys, open.keys)
  t.equal(account.facts.domains, open.facts.domains)
  t.end()
})

test('columns have the values and the length that they need, however many signals were expected', (t) => {
  const filledFrom = (expected: number) => {
    const growing = createGrowing(expected)
    const end = { entry: 0, deployments: 0, offers: 0 }
    while (end.entry < 9) {
      const { entry } = end
      for (const [of, more] of [
        ['entry', 1],
        ['deployments', entry % 4],
        ['offers', 3],
      ] as const)
        end[of] += more
      const { facts, deployments, offers } = growing.roomFor(end)
      deployments.at[end.entry] = end.deployments
      deployments.keyStart.fill(entry, deployments.at[entry], end.deployments)
      offers.row.fill(entry, entry * 3, end.offers)
      facts.coverage[entry] = entry
      facts.domain[entry] = facts.domains.id(`d${entry}`)
    }
    return growing.finish(end)
  }
  const { facts, deployments, offers, keys } = filledFrom(0)
  t.same([...facts.coverage], [0, 1, 2, 3, 4, 5, 6, 7, 8])
  t.equal(facts.domains[facts.domain[8] as number], 'd8')
  t.same([...deployments.at], [0, 0, 1, 3, 6, 6, 7, 9, 12, 12])
  t.same([...deployments.keyStart], [1, 2, 2, 3, 3, 3, 5, 6, 6, 7, 7, 7])
  t.same([...offers.row].slice(-4), [7, 8, 8, 8])
  t.same([keys.length, deployments.words.length, offers.row.length], [9 * 4, 12 * 4, 9 * 3])
  for (const expected of [1, 9, 27, 1_000]) t.same(filledFrom(expected), filledFrom(0), `${expected}`)
  const growing = createGrowing(0)
  const rooms = Array.from({ length: 1_000 }, (_, at) =>
    growing.roomFor({ entry: at + 1, deployments: 2 * at, offers: 3 * at }),
  )
  t.ok(new Set(rooms).size < 40, 'columns are copied seldom')
  t.end()
})

/** Lists of lists as a child column and its `at`. */
function columnsOf(lists: readonly (readonly number[])[]) {
  const at = u32(lists.length + 1)
  lists.forEach((list, entry) => {
    at[entry + 1] = (at[entry] as number) + list.length
  })
  const children = u16(at[lists.length] as number)
  children.set(lists.flat())
  return { at, children }
}

test('a list that grew beside one that shrank is no column that stayed', (t) => {
  const [old, now] = [columnsOf([[1], [2, 2], [1]]), columnsOf([[1, 1], [2]])]
  const kept: Run = { patch: false, start: 2, end: 3 }
  for (const replaced of [
    [{ patch: true, start: 0, end: 2 }],
    [
      { patch: true, start: 0, end: 1 },
      { patch: true, start: 1, end: 2 },
    ],
  ]) {
    const weave = weaveOf([...replaced, kept], 3)
    const children = childWeave(weave, old.at, now.at)
    t.equal(wovenAt(old.at, now.at, weave, children).join(), columnsOf([[1, 1], [2], [1]]).at.join())
  }
  t.end()
})

test('weaving gives what concatenating the runs gives, whatever is inserted, replaced or removed', (t) => {
  const lists = fc.array(fc.array(fc.nat(2), { maxLength: 3 }), { maxLength: 12 })
  const step = fc.constantFrom('keep', 'keep', 'keep', 'remove', 'replace', 'insert')
  proven(
    t,
    200,
    fc.property(lists, lists, fc.array(step, { minLength: 12, maxLength: 12 }), (before, patch, steps) => {
      const runs: Run[] = []
      let used = 0
      before.forEach((_, entry) => {
        const what = steps[entry]
        if (what !== 'keep' && what !== 'remove' && used < patch.length) {
          runs.push({ patch: true, start: used, end: ++used })
        }
        if (what === 'keep' || what === 'insert') runs.push({ patch: false, start: entry, end: entry + 1 })
      })
      const weave = weaveOf(runs, before.length)
      const [old, now] = [columnsOf(before), columnsOf(patch)]
      const children = childWeave(weave, old.at, now.at)
      const expected = columnsOf(
        runs.map(({ patch: isPatch, start }) => (isPatch ? patch : before)[start] ?? []),
      )
      const at = wovenAt(old.at, now.at, weave, children)
      const values = woven(u16, old.children, now.children, children)
      return at.join() === expected.at.join() && values.join() === expected.children.join()
    }),
  )
  t.end()
})
