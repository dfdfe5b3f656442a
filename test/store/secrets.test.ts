import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { test } from 'tap'
import { createSeal } from '../../src/store/database/seal.js'
import { embedded, onEveryStorage } from './support/storages.js'

const OLD = 'the key that is going to be replaced soon'
const NEW = 'the key that takes its place from now on'
const SECRET = 'segment-secret-4711'
const answer = {
  deployments: [{ is_live: true, activation_key: { type: 'segment_id', segment_id: SECRET } }],
}
const bare = { deployments: [{ is_live: true }] }

test('what is sealed with one key is opened while that key is in the list', (t) => {
  const text = createSeal([OLD]).write(answer)
  t.notMatch(text, new RegExp(SECRET))
  t.same(createSeal([NEW, OLD]).read(text), answer)
  t.same(createSeal([NEW]).read(text), bare, 'a secret that cannot be opened is left out')
  t.same(createSeal([]).read(text), bare)
  t.same(createSeal([OLD]).read(text.replace(/.{4}"\}\}/, 'AAAA"}}')), bare, 'nor one that was changed')
  t.same(createSeal([OLD]).read(JSON.stringify(answer)), answer, 'what an earlier release wrote is read')
  t.not(createSeal([OLD]).write(answer), createSeal([OLD]).write(answer), 'never the same twice')
  t.end()
})

test('without a key secrets stay in memory', (t) => {
  const seal = createSeal([])
  const text = seal.write(answer)
  t.notMatch(text, new RegExp(SECRET))
  t.same(seal.read(text), answer)
  t.same(createSeal([]).read(text), bare, 'a restart forgets them')
  t.end()
})

test('without a key long texts take a bounded part of the memory, and not that of other secrets', (t) => {
  const seal = createSeal([])
  const small = seal.write(answer)
  const long = { pending: [{ sealed: 'x'.repeat(1_000_000) }] }
  const first = seal.write(long)
  t.same(seal.read(first), long)
  let last = first
  for (let more = 0; more < 70; more += 1) last = seal.write(long)
  t.same(seal.read(last), long)
  t.same(seal.read(first), { pending: [{}] }, 'the oldest gave way')
  t.same(seal.read(small), answer)
  t.end()
})

onEveryStorage('no table holds a secret in clear text', async (t, storage) => {
  const store = await storage.open({ keys: [OLD] })
  const caller = 'acme'
  await store.idempotency.bind({ caller, key: 'k', task: 't', fingerprint: 'f' })
  await store.idempotency.answer(caller, 'k', answer)
  const push = { url: 'https://a.example', token: SECRET, authentication: { credentials: SECRET } }
  const job = { id: 'a', kind: 'call', lane: 'l', caller, data: { push } }
  const added = await store.jobs.add(job, { owner: 'one', ms: 60_000 })
  if (added.isHeld) await store.jobs.end(added.job, 'answered', answer)
  await store.tasks.create({ id: 't', caller, type: 'get_signals', status: 'submitted', request: {} })
  await store.tasks.progress('t', { status: 'completed', result: answer })
  await store.accounts.put({
    ...{ caller, accountId: 'acc', settings: {}, status: 'active' },
    notificationConfigs: [{ authentication: { credentials: SECRET } }],
  })
  const listing = JSON.stringify(answer)
  const found = { handle: 'sig', agentUrl: 'https://u.example', scope: 'public', segment: 's' }
  await store.found.put([{ ...found, listing }])
  const config = { url: 'https://a.example', authentication: { credentials: SECRET } }
  await store.subscriptions.add({ caller, accountId: 'acc', subscriberId: 's', job: 'sub', config })
  for (const table of ['idempotency', 'jobs', 'tasks', 'accounts', 'found_rows', 'subscriptions']) {
    const { rows } = await sql`select * from ${sql.table(table)}`.execute(store.db)
    t.equal(rows.length, 1)
    t.notMatch(JSON.stringify(rows), new RegExp(SECRET), table)
  }
  t.match(await store.jobs.get('a'), { data: { push }, answer })
  t.match(await store.subscriptions.byJobs(['sub']), [{ config }])
  t.match(await store.tasks.get(caller, 't'), { result: answer })
  t.same(
    (await store.found.read(['sig'])).map((row) => row.listing),
    [listing],
  )
  t.match(await store.accounts.get(caller, 'acc'), {
    notificationConfigs: [{ authentication: { credentials: SECRET } }],
  })
})

test('a folder is for one process; commands may look in beside it', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  await t.rejects(storage.open(), /is in use: another process works on it/)
  const beside = await storage.open({ whileInUse: true })
  t.same(await beside.ledger.query({}, 1), [])
  await store.close()
  t.ok(await storage.open(), 'and free again')
  t.ok(readFileSync(join(storage.url.slice('file:'.length), 'tributary.db')).length > 0)
})
