/** What replicas tell each other reaches each of them, in one order, and under a lease only while it stands. */
import { sql } from 'kysely'
import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createBoard } from '../../src/store/replicas/notes.js'
import type { Store } from '../../src/store/store.js'
import { until } from '../support/until.js'
import { mortal, NO_POSTGRES, shared } from './support/storages.js'

function replicasOf({ replicas }: Store) {
  if (!replicas) throw new Error('A shared storage has replicas')
  return replicas
}

function boardOn(store: Store, onProblem: (problem: string) => void = () => {}) {
  const { notes, listen } = replicasOf(store)
  const heard: [string, unknown][] = []
  const waiting: (() => void)[] = []
  const board = createBoard({ notes, listen, clock: systemClock, onProblem })
  board.hear('a/', (name, value) => {
    heard.push([name, value])
    for (const wake of waiting.splice(0)) wake()
  })
  /** Resolves when so many were heard. */
  async function hears(count: number): Promise<void> {
    while (heard.length < count) await new Promise<void>((resolve) => waiting.push(resolve))
  }
  return { ...board, hearsAll: board.heard, heard, hears }
}

test('each hears all that is told under a prefix, and first what was told before', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const one = boardOn(await storage.open())
  await one.start()
  await one.tell('a/1', { said: 1 })
  await one.tell('b/1', 'for others')
  await one.tell('a/1', { said: 2 })
  await one.hears(1)
  const two = boardOn(await storage.open())
  await two.start()
  t.same(two.heard, [['a/1', { said: 2 }]], 'the latest word')
  await Promise.all(Array.from({ length: 20 }, (_, at) => (at % 2 ? one : two).tell(`a/many/${at}`, at)))
  await two.hears(21)
  t.same(new Set(two.heard.slice(1).map(([, value]) => value)).size, 20)
  await Promise.all([one.close(), two.close()])
})

test('what nobody keeps is forgotten after a week', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const store = await storage.open()
  const { notes } = replicasOf(store)
  for (const name of ['a/kept', 'a/left']) await notes.tell(name, true)
  const [, { seq = 0 } = {}] = await notes.since(0)
  const week = 7 * 24 * 60 * 60 * 1_000
  await sql`update notes set told_at = told_at - ${week}::bigint`.execute(store.db)
  await notes.keep('a/kept')
  t.same(await notes.since(seq), [], 'nobody hears it again')
  await notes.forgetOld()
  t.same(
    (await notes.since(0)).map(({ name }) => name),
    ['a/kept'],
  )
})

test('an old epoch tells nothing', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const store = await storage.open()
  const { leases, notes } = replicasOf(store)
  const [lease] = await leases.take('one', ['work'], 60_000)
  if (!lease) throw new Error('A free lease is taken')
  t.equal(await notes.tell('a/1', 'under it', lease), true)
  await leases.release([lease])
  await leases.take('two', ['work'], 60_000)
  t.equal(await notes.tell('a/1', 'too late', lease), false)
  t.same(
    (await notes.since(0)).map(({ value }) => value),
    ['under it'],
  )
})

test('what is told after the storage was put back is heard by those who have read on', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const [one, two] = [boardOn(await storage.open()), boardOn(await storage.open())]
  t.teardown(() => Promise.all([one.close(), two.close()]))
  const { db } = await storage.open()
  await one.start()
  await two.start()
  await one.tell('a/1', 'before the backup')
  const { rows } = await sql<{ seq: number }>`select seq from notes`.execute(db)
  const [{ seq } = { seq: 0 }] = rows
  for (let more = 0; more < 5; more += 1) await one.tell('a/2', `lost ${more}`)
  const hear = async (word: string) => {
    for (const { heard } of [one, two]) {
      await until(
        () => heard.at(-1),
        (last) => last?.[1] === word,
      )
    }
  }
  await hear('lost 4')
  await sql`delete from notes where seq > ${seq}`.execute(db)
  await sql`select setval(pg_get_serial_sequence('notes', 'seq'), ${seq})`.execute(db)
  t.equal(await one.tell('a/1', 'after it'), true)
  await hear('after it')
  t.pass('by the one that told it, and by the other')
})

test('who waits for what was told does not wait for what is told meanwhile', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const { notes, listen } = replicasOf(await storage.open())
  let isOver = false
  let wake = () => {}
  const board = createBoard({
    notes: {
      ...notes,
      async since(last) {
        const fresh = await notes.since(last)
        if (!isOver) wake() // somebody tells something during each look
        return fresh
      },
    },
    listen(onNews) {
      wake = onNews
      return listen(onNews)
    },
    clock: systemClock,
    onProblem: (problem) => t.fail(problem),
  })
  const heard: unknown[] = []
  board.hear('a/', (_, value) => heard.push(value))
  const started = board.start()
  await notes.tell('a/1', 'before')
  await board.heard()
  t.same(heard, ['before'])
  isOver = true
  await started
  await board.close()
})

test('who was cut off hears what it missed', { skip: NO_POSTGRES }, async (t) => {
  const storage = await mortal(t)
  if (!storage) return
  const problems: string[] = []
  const one = boardOn(await storage.open({ onProblem: () => {} }), (problem) => problems.push(problem))
  await one.start()
  await one.tell('a/1', 'before')
  await one.hears(1)
  await storage.server.kill()
  t.equal(await one.tell('a/1', 'into the void'), false)
  t.notOk(await one.hearsAll())
  await storage.server.start()
  const two = boardOn(await storage.open({ onProblem: () => {} }))
  await two.tell('a/2', 'after')
  await one.hears(2)
  t.ok(await one.hearsAll())
  t.same(one.heard[1], ['a/2', 'after'])
  t.ok(problems.length >= 1)
  await one.close()
})
