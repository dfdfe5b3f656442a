/** What a PostgreSQL is rid of with blobs that share pieces, and how soon pieces of none go. */
import { randomBytes } from 'node:crypto'
import { test } from 'tap'
import { NO_POSTGRES, shared } from './support/storages.js'

const MIB = 1024 * 1024

test('bytes are counted with the last blob that has them', { skip: NO_POSTGRES }, async (t) => {
  const store = await (await shared(t))?.open()
  if (!store?.replicas) return
  const { blobs, replicas } = store
  const [a, b, c, d] = [1, 1, 1, 1].map(() => randomBytes(MIB)) as [Buffer, Buffer, Buffer, Buffer]
  await blobs.write('old', [a, b])
  await blobs.write('older', [b, c])
  await blobs.write('new', [c, d])
  t.same(await replicas.freed(['old', 'older']), [MIB, MIB], 'c stays with the newest')
  t.same(await replicas.freed(['older', 'old']), [0, 2 * MIB])
  t.same(await replicas.freed(['old', 'older', 'new']), [MIB, MIB, 2 * MIB])
  t.same(await replicas.freed(['none']), [0])
})

test('pieces of no blob go two minutes after somebody wrote them', { skip: NO_POSTGRES }, async (t) => {
  const store = await (await shared(t))?.open()
  if (!store?.replicas) return
  const { blobs, replicas, db } = store
  const count = async () => (await db.selectFrom('pieces').select('name').execute()).length
  await blobs.write('one', [randomBytes(MIB)])
  await blobs.remove('one')
  const age = (ms: number) =>
    db
      .updateTable('pieces')
      .set((eb) => ({ used_at: eb('used_at', '-', ms) }))
      .execute()
  await age(60_000)
  await replicas.sweep()
  t.equal(await count(), 1)
  await age(61_000)
  await replicas.sweep()
  t.equal(await count(), 0)
})
