import { sql } from 'kysely'
import pg from 'pg'
import { test } from 'tap'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { openStore } from '../../src/store/store.js'
import { until } from '../support/until.js'
import { NO_POSTGRES, shared } from './support/storages.js'

const STATEMENT_MS = 6_000 // no statement takes so long on a busy machine
const SLICES = 20 // more than there are connections

const request = { caller: 'acme', key: 'key', task: 'activate_signal', fingerprint: 'f' }
const task = (id: string) =>
  ({ id, caller: 'acme', type: 'activate_signal', status: 'submitted', request: {} }) as const

test('what is acknowledged after a statement stalled is there', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const onProblem = (problem: string) => t.comment(problem)
  const store = await openStore({ url: storage.url, now: Date.now, statementMs: STATEMENT_MS, onProblem })
  t.teardown(() => store.close())
  const watching = await storage.open()

  let pid = 0
  t.teardown(() => pid > 0 && process.kill(pid, 'SIGCONT'))
  const stalled = store.write(async ({ idempotency }, tx) => {
    await idempotency.bind(request)
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(tx)
    pid = rows[0]?.pid ?? 0
    process.kill(pid, 'SIGSTOP') // as a disk or a network that does not answer
    await idempotency.bind({ ...request, key: 'another' })
  })
  await t.rejects(stalled, StorageUnavailable)
  for (let index = 0; index < 12; index += 1) {
    await store.tasks.create(task(`t${index}`))
    t.ok(await watching.tasks.get('acme', `t${index}`), 'another process sees what was acknowledged')
  }
  process.kill(pid, 'SIGCONT')
  pid = 0
  const left = await until(
    () => watching.idempotency.find(request),
    (found) => found === undefined,
  )
  t.equal(left, undefined, 'nothing is left of what stalled')
  t.equal(
    (
      await watching.tasks.list(
        'acme',
        {},
        { field: 'created_at', direction: 'asc' },
        { limit: 1, offset: 0 },
      )
    ).total,
    12,
  )
})

test('a statement that takes too long is told as such, and its transaction is gone', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const store = await openStore({
    url: storage.url,
    now: Date.now,
    statementMs: STATEMENT_MS,
    onProblem: () => {},
  })
  t.teardown(() => store.close())
  const slow = store.write(async ({ tasks }, tx) => {
    await tasks.create(task('slow'))
    await sql`select pg_sleep(60)`.execute(tx)
  })
  await t.rejects(slow, StorageUnavailable)
  await store.tasks.create(task('after'))
  t.equal(await store.tasks.get('acme', 'slow'), undefined)
  t.ok(await store.tasks.get('acme', 'after'))
})

test('slices that are being saved keep no activation waiting for a connection', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const store = await storage.open({ statementMs: 20_000 })
  const client = new pg.Client({ connectionString: storage.url })
  await client.connect()
  t.teardown(() => client.end())
  await client.query('begin')
  await client.query('lock table blobs in access exclusive mode')
  const saved = Array.from({ length: SLICES }, (_, at) =>
    store.blobs.write(`slice/${at}`, [Buffer.from('rows')]),
  )
  const waiting = async () =>
    Number((await client.query('select count(*) from pg_locks where not granted')).rows[0].count)
  while ((await waiting()) === 0);
  const written = store.write(({ idempotency }) =>
    idempotency.bind({ caller: 'acme', key: 'k', task: 'activate_signal', fingerprint: 'f' }),
  )
  const first = await Promise.race([written, Promise.race(saved).then(() => 'a slice')])
  t.same(first, { kind: 'fresh' })
  await client.query('commit')
  await Promise.all(saved)
})

test('whoever ends waits for no database that has fallen silent', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const sockets = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
  const before = sockets()
  const store = await openStore({ url: storage.url, now: Date.now, onProblem: () => {} })
  const stop = await new Promise<() => Promise<void>>((resolve) => {
    const stopping = store.replicas?.listen(() => stopping && resolve(stopping))
  })
  await Promise.all(Array.from({ length: 5 }, (_, at) => store.tasks.create(task(`t${at}`))))
  const watching = new pg.Client(storage.url)
  await watching.connect()
  const { rows } = await watching.query<{ pid: number }>(
    'select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  )
  await watching.end()
  t.ok(rows.length > 2, 'for state, and to listen')
  t.teardown(() => {
    for (const { pid } of rows) process.kill(pid, 'SIGCONT')
  })
  for (const { pid } of rows) process.kill(pid, 'SIGSTOP')
  await stop()
  await store.close()
  const left = await until(sockets, (open) => open <= before) // fewer where one of an earlier test was still closing
  t.ok(left <= before, `${left} of ${before} sockets: nothing keeps the process alive`)
})
