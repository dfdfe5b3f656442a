/** A signature that reached one replica is used up at all of them. */
import { test } from 'tap'
import { nonceCheck } from '../../src/composition/settings.js'
import { createReplayGuard } from '../../src/signing/verify.js'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { embedded, NO_POSTGRES, shared } from './support/storages.js'

const CALLER = { owner: 'caller', keyid: 'key' }
const ANOTHER = { owner: 'another', keyid: 'key' }

test('a nonce that one process took is used at the other', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const guard = async () => {
    const { nonces } = await storage.open()
    if (!nonces) throw new Error('A shared storage keeps nonces')
    return createReplayGuard({ now: () => storage.clock.now, shared: nonceCheck(nonces) })
  }
  const [one, other] = [await guard(), await guard()]
  const until = storage.clock.now / 1_000 + 360
  t.equal(await one.take(CALLER, 'a', until), 'fresh')
  t.equal(await other.take(CALLER, 'a', until), 'used')
  t.equal(await other.take(CALLER, 'b', until), 'fresh')
  t.equal(await one.take(ANOTHER, 'b', until), 'fresh', 'nonces are a key´s own')
  const races = await Promise.all([one.take(CALLER, 'c', until), other.take(CALLER, 'c', until)])
  t.same(races.sort(), ['fresh', 'used'], 'of two at once one wins')

  storage.clock.now += 500_000
  t.equal(await one.take(CALLER, 'd', storage.clock.now / 1_000 + 360), 'fresh')
  const { db } = await storage.open()
  const left = await db.selectFrom('nonces').select('nonce').execute()
  t.same(
    left.map(({ nonce }) => nonce),
    ['d'],
    'what is over is forgotten',
  )
})

test('a storage of one process keeps none, and one that is down cannot tell', async (t) => {
  const store = await (await embedded(t)).open()
  t.equal(store.nonces, undefined)
  const take = async () => {
    throw new StorageUnavailable('down')
  }
  t.equal(await nonceCheck({ take })('k', 'n', 1), 'unknown')
})
