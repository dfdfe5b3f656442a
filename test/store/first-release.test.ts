import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { openPostgres } from '../../src/store/database/postgres.js'
import { openSqlite } from '../../src/store/database/sqlite.js'
import { EMBEDDED_MIGRATIONS, migrate, SHARED_MIGRATIONS } from '../../src/store/migrations.js'
import { onEveryBareStorage } from './support/storages.js'

const KEYED = 'https://keyed.example/mcp?v=2&api_key=a-secret-of-the-url'
const AGENT = 'https://signals.northwind.example/mcp'
const call = (
  id: string,
  state: string,
  at: number,
) => sql`insert into calls (id, caller, key, task, upstream, upstream_key,
  target, args, rows, state, answer, owner, lease_until, attempts, created_at, updated_at) values (${id}, 'acme', ${`key-${id}`},
  'activate_signal', 'northwind', ${`derived-${id}`}, 'nw_1', '{"destinations":[]}', '[]', ${state}, null, 'gone', 5, 1, ${at}, ${at})`
const task = (
  id: string,
  type: string,
  upstreamTask: string | null,
) => sql`insert into tasks (id, caller, type, status, upstream,
  upstream_task_id, call_id, request, webhook, created_at, updated_at, polled_at) values (${id}, 'acme', ${type}, 'submitted',
  'northwind', ${upstreamTask}, 'a', '{}', 0, 1, 1, 1)`

onEveryBareStorage('a database of the first release goes on working', async (t, storage) => {
  const known = storage.isShared ? SHARED_MIGRATIONS : EMBEDDED_MIGRATIONS
  const first = Object.fromEntries(Object.entries(known).filter(([name]) => name < '004'))
  const folder = storage.url.slice('file:'.length)
  if (!storage.isShared) mkdirSync(folder, { recursive: true })
  const old = storage.isShared
    ? openPostgres({ url: storage.url, connections: 2, onProblem: () => {} })
    : await openSqlite(join(folder, 'tributary.db'), { check: false, onProblem: () => {} })
  await migrate(old, first)
  await sql`insert into activations (id, caller, action, handle, signal_handle, offer_handle, upstream, agent_url, segment_id,
    destinations, outcome, created_at, updated_at) values ('a', 'acme', 'activate', 'sig_a', 'sig_a', 'sig_a.12345678', 'northwind',
    ${AGENT}, 'nw_1', '[]', 'pending', 1, 1)`.execute(old)
  await sql`insert into activations (id, caller, action, handle, signal_handle, offer_handle, upstream, agent_url, segment_id,
    destinations, outcome, created_at, updated_at) values ('k', 'acme', 'activate', 'sig_k', 'sig_k', 'sig_k.12345678', 'keyed',
    ${KEYED}, 'kw_1', '[]', 'pending', 2, 2)`.execute(old)
  await call('a', 'open', 1).execute(old)
  await call('b', 'answered', 2).execute(old)
  await task('t1', 'activate_signal', 'nw_task').execute(old)
  await task('t2', 'get_signals', null).execute(old)
  await task('t3', 'get_signals', null).execute(old)
  await old.destroy()
  const before = await storage.open({ whileInUse: true })
  const record = {
    id: 't2',
    input: { signal_spec: 'x' },
    reader: { caller: 'acme' },
    createdAt: 7,
    upstreamTasks: {},
  }
  await before.blobs.write('discovery/t2', [Buffer.from(JSON.stringify(record))])
  await before.close()

  const store = await storage.open()
  const entries = await store.ledger.query({}, 10)
  t.match(
    entries.filter(({ id }) => id === 'a'),
    [{ outcome: 'pending', seenAs: 'shared', seq: 0 }],
  )
  const name = 'https://keyed.example/mcp?v=2'
  t.match(await store.ledger.ofSegment(name, 'kw_1'), [{ id: 'k' }], 'an agent goes by its name')
  t.notMatch(JSON.stringify(entries), 'a-secret-of-the-url')
  const open = await store.jobs.get('a')
  t.match(open, { state: 'open', lane: AGENT, key: 'key-a', attempts: 1, createdAt: 1 })
  t.match(open?.data, { agentUrl: AGENT, upstreamKey: 'derived-a', segment: 'nw_1', task: 'activate_signal' })
  t.ok(await store.jobs.claim('a', { owner: 'one', ms: 1_000 }), 'it is taken up')
  t.match(await store.jobs.get('b'), { state: 'answered' })
  t.match(await store.jobs.get('t1'), {
    kind: 'upstream_task',
    data: { agentUrl: AGENT, upstreamTaskId: 'nw_task' },
  })
  t.match(await store.jobs.get('t2'), { kind: 'question', data: record, createdAt: 7 })
  t.match(await store.tasks.get('acme', 't3'), { status: 'failed', error: { code: 'SERVICE_UNAVAILABLE' } })
  t.same(await store.blobs.list('discovery/'), [])
  await store.close()
  const again = await storage.open()
  t.equal(
    (await again.work.backlog()).reduce((sum, each) => sum + each.open, 0),
    3,
    'a second start carries nothing twice',
  )
})
