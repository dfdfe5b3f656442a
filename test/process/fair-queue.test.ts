import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { createFairQueue } from '../../src/process/fair-queue.js'
import { proven } from '../support/proven.js'

/** Tasks that end when they are told, in the order in which they were started. */
function scene(options = { total: 4, perOwner: 2, perGroup: 1 }) {
  const queue = createFairQueue(options)
  const started: string[] = []
  const running = new Map<string, () => void>()
  const turns = new Map<string, { owners: readonly string[]; group: string }>()
  return {
    started,
    running,
    turns,
    add(name: string, owners: readonly string[], group: string) {
      turns.set(name, { owners, group })
      void queue.run({ owners, group }, () => {
        started.push(name)
        return new Promise<void>((resolve) => running.set(name, resolve))
      })
    },
    async end(name: string) {
      running.get(name)?.()
      running.delete(name)
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

test('2,000 tasks that never end keep nobody else waiting', async (t) => {
  const { add, started } = scene()
  for (let i = 0; i < 2_000; i += 1) add(`bad${i}`, ['bad'], `bad${i}.example`)
  add('good', ['good'], 'good.example')
  t.same(started, ['bad0', 'bad1', 'good'])
})

test('one group of an owner does not keep its others waiting', async (t) => {
  const { add, started, end } = scene({ total: 2, perOwner: 2, perGroup: 1 })
  for (let i = 0; i < 100; i += 1) add(`sub${i}`, ['one'], 'bad.example')
  add('good', ['one'], 'good.example')
  t.same(started, ['sub0', 'good'])
  await end('good')
  add('better', ['one'], 'better.example')
  t.same(started, ['sub0', 'good', 'better'])
})

test('what two owners asked for is done once, at the turn of the first', async (t) => {
  const { add, started, end } = scene({ total: 2, perOwner: 1, perGroup: 1 })
  add('a', ['bad'], 'a')
  add('b', ['bad'], 'b')
  add('c', ['bad', 'good'], 'b')
  t.same(started, ['a', 'c'])
  await end('a')
  await end('b')
  await end('c')
  t.same(started, ['a', 'c', 'b'])
})

test('who gives up has no place in the line of any of its owners', async (t) => {
  const queue = createFairQueue({ total: 1, perOwner: 1, perGroup: 1 })
  let end = () => {}
  const first = queue.run(
    { owners: ['a'], group: 'g' },
    () => new Promise<void>((resolve) => (end = resolve)),
  )
  const giveUp = new AbortController()
  const asked = { owners: ['a', 'b'], group: 'g' }
  const left = queue.run(asked, async () => 'ran', giveUp.signal)
  const stays = queue.run(asked, async () => 'ran')
  t.same([queue.waiting('a'), queue.waiting('b')], [2, 2])
  giveUp.abort(new Error('gave up'))
  t.same([queue.waiting('a'), queue.waiting('b')], [1, 1])
  await t.rejects(left, /gave up/)
  await t.rejects(
    queue.run(asked, async () => 'ran', giveUp.signal),
    /gave up/,
  )
  end()
  await first
  t.equal(await stays, 'ran')
  t.same(
    [queue.waiting('a'), queue.waiting('b')],
    [0, 0],
    'and it is in the line of one owner no longer than in that of the other',
  )
})

test('whatever is asked in whatever order: bounds hold, nothing is lost, the least served is next', async (t) => {
  const owner = fc.constantFrom('o1', 'o2', 'o3')
  const step = fc.oneof(
    fc.record({
      owners: fc.uniqueArray(owner, { minLength: 1, maxLength: 2 }),
      group: fc.constantFrom('g1', 'g2', 'g3'),
    }),
    fc.nat({ max: 20 }),
  )
  await proven(
    t,
    60,
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const { add, end, running, started, turns } = scene()
      let count = 0
      for (const each of steps) {
        if (typeof each === 'number') await end([...running.keys()][each % Math.max(1, running.size)] ?? '')
        else add(`t${count++}`, each.owners, each.group)
        assert.ok(running.size <= 4)
        const idle = ['o1', 'o2', 'o3'].filter(
          (name) => ![...running.keys()].some((task) => turns.get(task)?.owners.includes(name)),
        )
        const starved = [...turns].some(
          ([task, { owners }]) => !started.includes(task) && owners.some((name) => idle.includes(name)),
        )
        assert.ok(!starved || running.size === 4, 'an owner with nothing under way waits only for a place')
      }
      while (running.size > 0) await end([...running.keys()][0] as string)
      assert.equal(started.length, count)
    }),
  )
  t.pass('in no order was anybody forgotten')
})
