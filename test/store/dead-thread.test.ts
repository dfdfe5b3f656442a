import { once } from 'node:events'
import type { Worker } from 'node:worker_threads'
import { type Test, test } from 'tap'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { embedded } from './support/storages.js'

const request = (key: string) => ({ caller: 'acme', key, task: 't', fingerprint: 'f' })

/** The threads that are started from now on. */
function threadsFrom(t: Test): readonly Worker[] {
  const threads: Worker[] = []
  const watch = (thread: Worker) => void threads.push(thread)
  process.on('worker', watch)
  t.teardown(() => process.off('worker', watch))
  return threads
}

test('a database whose thread ends by itself is unavailable for what was under way, and then there again', async (t) => {
  const storage = await embedded(t)
  const threads = threadsFrom(t)
  const store = await storage.open()
  await store.idempotency.bind(request('before'))

  const first = threads[0] as Worker
  const cut = store.write(async ({ idempotency }) => {
    await idempotency.bind(request('half'))
    const ended = once(first, 'exit')
    await first.terminate() // as one that ran out of memory
    await ended
    await idempotency.bind(request('the other half'))
  })
  await t.rejects(cut, StorageUnavailable)
  t.match(await store.idempotency.find(request('before')), { kind: 'open' })
  t.equal(await store.idempotency.find(request('half')), undefined, 'all of a unit of work or nothing of it')
  t.equal(await store.idempotency.find(request('the other half')), undefined)
  t.match(await store.idempotency.bind(request('after')), { kind: 'fresh' })
  t.same(storage.problems, [
    'the thread of the database ended',
    'the thread of the database ended by itself; another one has taken its place',
  ])
  t.equal(threads.length, 2)
})

test('a statement that cannot be sent takes no other`s answer', async (t) => {
  const { db, idempotency } = await (await embedded(t)).open()
  const query = { sql: 'select ? as value', parameters: [() => {}] } as never
  await t.rejects(db.executeQuery(query), { name: 'DataCloneError' })
  t.match(await idempotency.bind(request('after')), { kind: 'fresh' })
  t.match(await idempotency.find(request('after')), { kind: 'open' })
})

test('what waits for its turn when the database is closed does not open it again', async (t) => {
  const storage = await embedded(t)
  const threads = threadsFrom(t)
  const store = await storage.open()
  const asked = Array.from({ length: 20 }, () =>
    store.audit.last(1).then(
      () => 'answered',
      (error: Error) => error.message,
    ),
  )
  await store.close()
  t.equal((await Promise.all(asked)).at(-1), 'the database was closed')
  t.equal(threads.length, 1)
  t.same(storage.problems, [])
})
