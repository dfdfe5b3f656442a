import fc from 'fast-check'
import { test } from 'tap'
import { createFairBudget } from '../../src/process/fair-bytes.js'
import { proven } from '../support/proven.js'

const MB = 1_000_000

test('200 subdomains of one registrable domain lose to the few who were there', async (t) => {
  const budget = createFairBudget(() => 100 * MB)
  t.same(budget.hold('honest', { bytes: 20 * MB, group: 'honest.example', owners: () => ['one'] }), [])
  for (let i = 0; i < 200; i += 1) {
    const gone = budget.hold(`sub${i}`, { bytes: 5 * MB, group: 'bad.example', owners: () => ['one'] })
    t.notOk(gone.includes('honest'))
  }
  t.ok(budget.has('honest'))
  t.equal(budget.bytes(), 100 * MB)
})

test('naming what others need neither costs them nor helps the greedy', async (t) => {
  const budget = createFairBudget(() => 100 * MB)
  budget.hold('shared', { bytes: 20 * MB, group: 'p.example', owners: () => ['greedy', 'honest'] })
  for (let i = 0; i < 20; i += 1) {
    budget.hold(`g${i}`, { bytes: 19 * MB, group: 'p.example', owners: () => ['greedy'] })
  }
  t.ok(budget.has('shared'))
})

test('what nobody names any more is paid for by nobody else', async (t) => {
  const budget = createFairBudget(() => 10)
  let owners = ['a', 'b']
  budget.hold('x', { bytes: 6, group: 'g', owners: () => owners })
  owners = ['b']
  budget.reassign()
  t.same(budget.hold('y', { bytes: 5, group: 'g', owners: () => ['a'] }), ['x'], 'b holds more than a')
})

test('whatever is held in whatever order: the bound holds, and no bystander loses', async (t) => {
  const LIMIT = 100
  const owner = fc.constantFrom('o1', 'o2', 'o3', 'o4')
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        key: fc.nat({ max: 30 }),
        bytes: fc.integer({ min: 1, max: 60 }),
        group: fc.constantFrom('g1', 'g2', 'g3'),
        owners: fc.uniqueArray(owner, { minLength: 1, maxLength: 3 }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ drop: fc.nat({ max: 30 }) }) },
    {
      weight: 1,
      arbitrary: fc.record({ key: fc.nat({ max: 30 }), now: fc.uniqueArray(owner, { minLength: 1 }) }),
    },
  )
  type Thing = { bytes: number; group: string; owners: readonly string[] }
  proven(
    t,
    700,
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const budget = createFairBudget(() => LIMIT)
      const things = new Map<string, Thing>()
      const wantedBy = (name: string) => [...things.values()].filter(({ owners }) => owners.includes(name))
      const sum = (list: readonly Thing[]) => list.reduce((total, { bytes }) => total + bytes, 0)
      for (const each of steps) {
        if ('drop' in each) {
          things.delete(`${each.drop}`)
          budget.release(`${each.drop}`)
          continue
        }
        if ('now' in each) {
          const thing = things.get(`${each.key}`)
          if (thing) thing.owners = each.now
          budget.reassign()
          continue
        }
        const { key, ...thing } = each
        things.set(`${key}`, thing)
        const gone = budget.hold(`${key}`, { ...thing, owners: () => things.get(`${key}`)?.owners ?? [] })
        const owners = new Set([...things.values()].flatMap((one) => one.owners))
        for (const lost of gone) {
          const victim = things.get(lost) as Thing
          for (const name of victim.owners) {
            if (sum(wantedBy(name)) * owners.size <= LIMIT)
              throw new Error(`${name} lost ${lost} as a bystander`)
          }
          const only = owners.size === 1 ? [...things.values()] : []
          const groups = new Set(only.map(({ group }) => group)).size
          const own = only.filter(({ group }) => group === victim.group)
          if (groups > 0 && sum(own) * groups <= LIMIT)
            throw new Error(`${victim.group} lost ${lost} as a bystander`)
        }
        for (const lost of gone) things.delete(lost)
        if (budget.bytes() > LIMIT) throw new Error('over the bound')
        if (budget.bytes() !== sum([...things.values()])) throw new Error('the sum is wrong')
      }
    }),
  )
  t.pass()
})
