/** Leases between processes: one owner at a time, and nothing is written under an epoch that is over. */
import { sql } from 'kysely'
import { test } from 'tap'
import type { Db } from '../../src/store/database/database.js'
import { createLeases, type Lease, leaseStands } from '../../src/store/replicas/leases.js'
import { createTime, fenced, HOUR, opened, openedInTime } from './support/lease-time.js'
import { NO_POSTGRES } from './support/storages.js'

/** Resolves when so many statements wait for a lock. */
async function untilWaiting(tx: Db, count: number): Promise<void> {
  const waits = sql<{ waiting: number }>`select count(*)::int as waiting from pg_locks where not granted`
  for (let waiting = 0; waiting < count; ) waiting = (await waits.execute(tx)).rows[0]?.waiting ?? 0
}

test('what a dead process held is free although the clock of the database was set back', {
  skip: NO_POSTGRES,
}, async (t) => {
  const store = await opened(t)
  if (!store) return
  const time = createTime()
  const leases = createLeases(store.db, time.dialect)
  await leases.take('dead', ['member/dead', 'work'], 10_000)
  await leases.take('living', ['member/living', 'more'], 10_000)
  time.advance(-5_000)
  t.same(await leases.take('another', ['work', 'more'], 10_000), [], 'a small step ends no lease')
  time.advance(-HOUR)
  const [renewed] = await leases.take('living', ['more'], 10_000)
  t.ok(renewed, 'who lives goes on')
  t.same(await leases.take('another', ['more'], 10_000), [], 'and keeps it')
  await leases.take('living', ['member/living'], 10_000)
  const [taken] = await leases.take('living', ['work'], 10_000)
  t.ok(taken && (await store.db.transaction().execute((tx) => leaseStands(tx, taken))))
  t.same(await leases.held('member/'), ['member/living'])
})

test('who releases and who takes the same names do not wait for each other in a circle', {
  skip: NO_POSTGRES,
}, async (t) => {
  const store = await opened(t)
  if (!store) return
  const leases = createLeases(store.db)
  const held: Lease[] = []
  for (const name of ['z', 'm', 'a']) held.push(...(await leases.take('one', [name], HOUR))) // as rows lie in the table
  const between = held.find(({ name }) => name === 'm') as Lease
  let released: Promise<void> = Promise.resolve()
  let taken: Promise<Lease[]> = Promise.resolve([])
  await store.db.transaction().execute(async (tx) => {
    await leaseStands(tx, between)
    released = leases.release(held)
    await untilWaiting(tx, 1)
    taken = leases.take('two', ['a', 'm', 'z'], HOUR)
    await untilWaiting(tx, 2)
  })
  await t.resolves(released)
  t.equal((await taken).length, held.length)
})

test('a lease is one owner´s until it ends, and each owner has an epoch of its own', {
  skip: NO_POSTGRES,
}, async (t) => {
  const timed = await openedInTime(t)
  if (!timed) return
  const { store, time, leases } = timed
  const [first] = await leases.take('one', ['b', 'a'], 1_000)
  t.same(await leases.take('two', ['a', 'b'], 1_000), [])
  t.same((await leases.held('')).sort(), ['a', 'b'])
  time.advance(600)
  t.same((await leases.take('one', ['a'], 1_000))[0]?.epoch, first?.epoch, 'renewed, it is the same')
  time.advance(600)
  const [second] = await leases.take('two', ['a', 'b'], 1_000)
  t.equal(second?.name, 'b', 'only what was not renewed')
  t.ok(second && first && second.epoch > first.epoch)
  const old = { name: 'b', epoch: first?.epoch ?? 0 }
  t.equal(await fenced(store, old, () => t.fail('an old epoch wrote')), false)
  t.equal(await fenced(store, second as Lease, () => {}), true)
  await leases.release([old])
  t.equal(await fenced(store, second as Lease, () => {}), true, 'an old epoch ends nobody´s')
  await leases.release([second as Lease])
  t.equal(await fenced(store, second as Lease, () => {}), false, 'what was let go of is over')
  time.advance(5_000)
  const [back] = await leases.take('one', ['a'], 1_000)
  t.ok(back && first && back.epoch > first.epoch, 'back at its owner after it ended, it is another one')
  time.advance(25 * HOUR)
  await leases.forgetOld()
  t.same(await store.db.selectFrom('leases').selectAll().execute(), [])
  const [fresh] = await leases.take('two', ['a'], 1_000)
  t.ok(fresh && back && fresh.epoch > back.epoch, 'a forgotten name goes on beyond where it was')
})

test('nobody takes a lease while somebody writes under it', { skip: NO_POSTGRES }, async (t) => {
  const timed = await openedInTime(t)
  if (!timed) return
  const { store, time, leases } = timed
  const [lease] = await leases.take('one', ['a'], 1_000)
  time.advance(2_000)
  const order: string[] = []
  let taking: Promise<unknown> = Promise.resolve()
  await store.db.transaction().execute(async (tx) => {
    t.equal(await leaseStands(tx, lease as Lease), true)
    taking = leases.take('two', ['a'], 1_000).then(() => order.push('taken'))
    await untilWaiting(tx, 1)
    order.push('written')
  })
  await taking
  t.same(order, ['written', 'taken'])
})

test('a blob is neither replaced nor removed under an old epoch', { skip: NO_POSTGRES }, async (t) => {
  const store = await opened(t)
  if (!store?.replicas) return
  const { leases, write, remove } = store.replicas
  const [old] = (await leases.take('one', ['a'], 60_000)) as [Lease]
  t.equal(await write('blob', [Buffer.from('of one')], old), true)
  await leases.release([old])
  const [next] = (await leases.take('two', ['a'], 60_000)) as [Lease]
  t.equal(await write('blob', [Buffer.from('too late')], old), false)
  await remove('blob', old)
  t.equal(Buffer.from((await store.blobs.read('blob'))?.[0] ?? []).toString(), 'of one')
  await remove('blob', next)
  t.equal(await store.blobs.read('blob'), undefined)
})
