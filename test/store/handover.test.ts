/** What processes on one database keep for callers for minutes: each item for its owner, within bounds. */
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { test } from 'tap'
import type { Handover, HandoverItem } from '../../src/store/replicas/handover.js'
import { embedded, NO_POSTGRES, type Storage, shared } from './support/storages.js'

const KEYS = ['a storage key of the tests, long enough']
const item = (name: string, more: Partial<HandoverItem> = {}): HandoverItem => ({
  ...{ name, kind: 'answer', owner: 'buyer', bytes: Buffer.from(`of ${name}`) },
  ...more,
})
const textOf = async (handover: Handover, name: string, owner = 'buyer') => {
  const found = await handover.find('answer', owner, name)
  return found && Buffer.from(found.bytes).toString()
}

/** One process on the shared storage. */
async function opened(storage: Storage) {
  const { handover, db } = await storage.open({ keys: KEYS })
  if (!handover) throw new Error('a shared storage keeps')
  return { handover, db }
}

test('what one process keeps the other finds, for its owner, with the key, and for its time', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const [one, other] = await Promise.all([opened(storage), opened(storage)])
  await one.handover.keep([item('a')])
  t.equal(await textOf(other.handover, 'a'), 'of a')
  t.equal(await textOf(other.handover, 'a', 'another'), undefined)
  t.equal(await other.handover.find('task', 'buyer', 'a'), undefined)

  const stranger = await storage.open({ keys: ['another key, and it is long enough too'] })
  t.equal(await textOf(stranger.handover as Handover, 'a'), undefined)
  const keyless = await storage.open()
  await keyless.handover?.keep([item('clear')])
  t.equal(await textOf(one.handover, 'clear'), undefined, 'nothing is kept in clear text')

  await sql`update shelf set kept_at = kept_at - 16 * 60000`.execute(one.db)
  t.equal(await textOf(other.handover, 'a'), undefined, 'its time is over')
  storage.clock.now += 2_000
  await one.handover.keep([item('b')])
  const left = await one.db.selectFrom('shelf').select('name').execute()
  t.same(
    left.map(({ name }) => name),
    ['b'],
  )
})

test('an owner has so many, and so many bytes, of which the newest stay, and takes nobody`s place', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const { handover, db } = await opened(storage)
  const count = async (owner: string) =>
    Number(
      (
        await db
          .selectFrom('shelf')
          .select((eb) => eb.fn.countAll().as('count'))
          .where('owner', '=', owner)
          .executeTakeFirst()
      )?.count,
    )
  await handover.keep([item('theirs', { owner: 'another' })])
  for (let at = 0; at < 60; at += 1) await handover.keep([item(`${at}`)])
  storage.clock.now += 2_000
  await handover.keep([item('last')])
  t.equal(await count('buyer'), 50)
  t.equal(await textOf(handover, 'last'), 'of last')
  t.equal(await textOf(handover, '0'), undefined)
  t.equal(await textOf(handover, 'theirs', 'another'), 'of theirs')

  const large = randomBytes(3 * 1024 * 1024)
  for (let at = 0; at < 4; at += 1) await handover.keep([item(`large ${at}`, { bytes: large })])
  storage.clock.now += 2_000
  await handover.keep([item('after')])
  t.equal(await textOf(handover, 'after'), 'of after')
  t.equal(await textOf(handover, 'large 0'), undefined)
  t.ok(await handover.find('answer', 'buyer', 'large 3'))
})

test('all owners together have so many, of which the newest stay', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const { handover, db } = await opened(storage)
  await handover.keep([item('old')])
  await sql`insert into shelf (name, kind, owner, about, size, kept_at)
    select 'item ' || n, 'answer', 'owner ' || n, '', 1, kept_at + 1 from shelf, generate_series(1, 20000) as n`.execute(
    db,
  )
  await sql`update shelf set kept_at = kept_at - 60000`.execute(db)
  t.equal(await textOf(handover, 'old'), 'of old')
  storage.clock.now += 2_000
  await handover.keep([item('new', { owner: 'another' })])
  t.equal(await textOf(handover, 'old'), undefined)
  t.equal(await textOf(handover, 'new', 'another'), 'of new')
})

test('bytes that many tasks share are written once, and stay as long as the newest of them', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const { handover, db } = await opened(storage)
  const body = item('body', { kind: 'body' })
  const task = (name: string): HandoverItem => ({
    name,
    kind: 'task',
    owner: 'buyer',
    about: '7',
    body: 'body',
  })
  await handover.keep([body, task('one')])
  await sql`update shelf set kept_at = kept_at - 9 * 60000`.execute(db)
  await handover.keep([body, task('two')])
  await sql`update shelf set kept_at = kept_at - 2 * 60000`.execute(db)
  storage.clock.now += 2_000
  await handover.keep([item('other')])
  t.equal(await handover.find('task', 'buyer', 'one'), undefined)
  const found = await handover.find('task', 'buyer', 'two')
  t.equal(found && Buffer.from(found.bytes).toString(), 'of body')
  t.same(await handover.listed('task', 'buyer'), [{ name: 'two', about: '7' }])
  t.match(await handover.these('task', 'buyer', ['one', 'two', 'none']), [{ name: 'two', about: '7' }])
  t.same(await handover.these('task', 'another', ['two']), [])
  await handover.keep([{ ...task('theirs'), owner: 'another' }])
  t.equal(await handover.find('task', 'another', 'theirs'), undefined, 'a body is its owner`s alone')
  t.same(await handover.listed('task', 'another'), [], 'so nothing of it can be found')
})

test('a process that is alone keeps nothing for others', async (t) => {
  t.equal((await (await embedded(t)).open()).handover, undefined)
})
