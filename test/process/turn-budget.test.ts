import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { createTurnBudget } from '../../src/process/turn-budget.js'
import { proven } from '../support/proven.js'

const BUDGET_MS = 10
const UNTIMED = 4 // works between two looks at the time

/** A loop whose turns end when they are told, and a clock that only work moves. */
function scene() {
  let time = 0
  let tasks: (() => void)[] = []
  const done: string[] = []
  const budget = createTurnBudget({ now: () => time, nextTurn: (task) => tasks.push(task) })
  return {
    budget,
    done,
    now: () => time,
    /** Work that takes so long, at once where there is time. Gives whether it was done. */
    ask(owner: string, name: string, ms: number): boolean {
      const work = () => {
        time += ms
        done.push(name)
      }
      if (budget.isSpent()) {
        void budget.later(owner, work)
        return false
      }
      work()
      return true
    },
    /** Gives whether there was anything to do. */
    endTurn(): boolean {
      const due = tasks
      tasks = []
      for (const task of due) task()
      return due.length > 0
    },
  }
}

test('a turn that has used its time leaves the rest to the next ones, a few at a time', async (t) => {
  const { ask, done, endTurn } = scene()
  const asked = Array.from({ length: 12 }, (_, n) => ask('a', `${n}`, 4))
  t.same(asked, [...Array(7).fill(true), ...Array(5).fill(false)])
  endTurn()
  t.equal(done.length, 10)
  endTurn()
  t.same(
    done,
    Array.from({ length: 12 }, (_, n) => `${n}`),
  )
})

test('small works are all done in their turn', async (t) => {
  const { ask } = scene()
  const asked = Array.from({ length: 1_000 }, (_, n) => ask('a', `${n}`, 0.009))
  t.ok(asked.every((isDone) => isDone))
})

test('turns that are not full begin with their whole time', async (t) => {
  const { ask, done, endTurn } = scene()
  for (let n = 0; n < 400; n += 1) {
    ask('a', `${n}`, 2)
    if (n % UNTIMED === 0) endTurn()
  }
  t.equal(done.length, 400)
})

test('owners take turns, however much one of them asks for', async (t) => {
  const { ask, budget, done, endTurn } = scene()
  for (let n = 0; n < 100; n += 1) ask('many', 'many', 5)
  t.equal(ask('few', 'few', 5), false)
  t.equal(budget.waiting('few'), 1)
  const before = done.length
  endTurn()
  t.same(done.slice(before), ['many', 'few'])
  t.equal(budget.waiting('few'), 0)
})

test('what work gives or throws is what its owner gets', async (t) => {
  const { ask, budget, endTurn } = scene()
  for (let n = 0; n < 10; n += 1) ask('a', '', 5)
  const given = budget.later('a', () => 'result')
  const promised = budget.later('a', async () => 'promised')
  const failed = budget.later('a', () => {
    throw new Error('of the work')
  })
  const caught = failed.catch((error: Error) => error.message)
  while (endTurn());
  t.same(await Promise.all([given, promised, caught]), ['result', 'promised', 'of the work'])
})

const step = fc.oneof(
  fc.record({
    owner: fc.constantFrom('a', 'b', 'c'),
    ms: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 9 })),
  }),
  fc.constant('turn ends' as const),
)

test('all is done, in each owner’s order; no turn works longer than its budget and one work; nobody is passed over', async (t) => {
  proven(
    t,
    500,
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const { ask, budget, done, now, endTurn } = scene()
      const expected = new Map<string, string[]>()
      let begunAt = now()
      const ended = () => {
        const from = now()
        const before = done.length
        const waits = ['a', 'b', 'c'].filter((owner) => budget.waiting(owner) > 0)
        const had = endTurn()
        assert.ok(now() - from < BUDGET_MS + 9)
        const owners = done.slice(before).map((name) => name[0])
        const served = new Set(owners)
        if (served.size < waits.length) assert.equal(new Set(owners).size, owners.length) // nobody twice before all had one
        begunAt = now()
        return had
      }
      for (const [at, one] of steps.entries()) {
        if (one === 'turn ends') {
          ended()
          continue
        }
        const name = `${one.owner}${at}`
        expected.set(one.owner, [...(expected.get(one.owner) ?? []), name])
        ask(one.owner, name, one.ms)
        assert.ok(now() - begunAt < 2 * UNTIMED * 9 + BUDGET_MS)
      }
      while (ended());
      for (const [owner, names] of expected)
        assert.deepEqual(
          done.filter((name) => name[0] === owner),
          names,
        )
    }),
  )
})
