import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import type { Store } from '../../src/store/store.js'
import { postgresBinaries, restoreDump } from './support/postgres.js'
import { bare, embedded, NO_POSTGRES } from './support/storages.js'

const keys = ['a storage key of the tests, long enough']
const push = { url: 'https://a.example/hook', token: 'a token of the buyer' }

async function begin(store: Store): Promise<void> {
  await store.blobs.write('slice/a', [Buffer.from('a copy')])
  await store.write(async ({ tasks, jobs }) => {
    await tasks.create({ id: 't', caller: 'acme', type: 'get_signals', status: 'submitted', request: {} })
    await jobs.add({ id: 't', kind: 'question', lane: 'acme', caller: 'acme', data: { push } })
  })
}

/** Whoever restores it can end the task: all that is needed is in the database. */
async function isWhole(t: { match(found: unknown, wanted: object): unknown }, store: Store): Promise<void> {
  const held = await store.jobs.claim('t', { owner: 'restored', ms: 60_000 }, { early: true })
  t.match(held, { kind: 'question', data: { push } })
  t.match(await store.tasks.get('acme', 't'), { status: 'submitted' })
}

test('PostgreSQL: the documented commands, without the blobs', { skip: NO_POSTGRES }, async (t) => {
  const [from, to] = [await bare(t), await bare(t)]
  const binaries = postgresBinaries()
  if (!from || !to || !binaries) return
  const store = await from.open({ keys })
  await begin(store)
  const file = join((await embedded(t)).url.slice('file:'.length), 'backup.dump')
  restoreDump(binaries, from.url, to.url, file)
  const restored = await to.open({ keys })
  t.same(await restored.blobs.list(''), [])
  await isWhole(t, restored)
})

test('SQLite: the file of a stopped server, put into another folder', async (t) => {
  const from = await embedded(t)
  const store = await from.open({ keys })
  await begin(store)
  const folder = from.url.slice('file:'.length)
  await store.close()
  const to = await embedded(t)
  const target = to.url.slice('file:'.length)
  mkdirSync(target, { recursive: true })
  copyFileSync(join(folder, 'tributary.db'), join(target, 'tributary.db'))
  await isWhole(t, await to.open({ keys }))
})
