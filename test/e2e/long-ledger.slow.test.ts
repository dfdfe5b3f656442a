/** Slow, because of the ledger's length; ledger-export.test.ts exports a short one. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { test } from 'tap'
import { embedded } from '../store/support/storages.js'
import { startCommand } from '../support/command.js'

const MANY = 60_000
const PAUSE_MS = 300
const READ_AHEAD = 1_000_000

test('a long ledger is exported as fast as it is read, and a reader may leave', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  // Far more than a pipe and the buffers at its ends hold.
  await sql`with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${MANY})
    insert into activations (id, caller, action, handle, signal_handle, offer_handle, upstream, agent_url, segment_id,
      destinations, outcome, created_at, updated_at)
    select 'call-' || n, 'acme', 'activate', 'sig', 'sig', 'sig.offer', 'northwind', 'https://a.example/mcp', 'nw',
      '[]', 'completed', n, n from numbers`.execute(store.db)
  await store.close()
  const config = join(storage.url.slice('file:'.length), 'config.json')
  await writeFile(config, JSON.stringify({ storage: { url: storage.url } }))
  const args = ['ledger', '--config', config, '--json']

  const leaving = startCommand(args)
  await leaving.printed(/\n/)
  leaving.process.stdout.destroy()
  t.match(await leaving.finished, { code: 0, err: '' }, 'as `| head` does it')

  const paused = startCommand(args)
  await paused.printed(/\n/)
  paused.process.stdout.pause()
  const read = paused.out().length
  const ended = await Promise.race([paused.finished, wait(PAUSE_MS)])
  t.equal(ended, undefined, 'it waits for its reader')
  t.ok(paused.out().length - read < READ_AHEAD, 'and holds little')
  paused.process.stdout.resume()
  const { code, out } = await paused.finished
  t.equal(code, 0)
  t.equal(out.split('\n').length - 1, MANY)
})
