import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { test } from 'tap'
import { embedded } from '../store/support/storages.js'
import { runCommand, startCommand } from '../support/command.js'

const ENTRIES = 60
const MANY = 60_000
const PAUSE_MS = 300
const READ_AHEAD = 1_000_000

test('the ledger is exported whole as JSON lines; the table says that there is more', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  for (let index = 0; index < ENTRIES; index += 1) {
    storage.clock.now += 1_000
    await store.ledger.recordAll([
      {
        ...{ id: `call-${index}`, caller: 'acme', account: '{"account_id":"acc_1"}', action: 'activate' },
        ...{ handle: 'sig_a', signalHandle: 'sig_a', offerHandle: 'sig_a.12345678' },
        ...{ upstream: 'northwind', agentUrl: 'https://signals.northwind.example/mcp', segmentId: 'nw_1' },
        ...{ pricingOptionId: 'sig_a.12345678.po', destinations: [{ type: 'platform', platform: 'dsp' }] },
        ...{ seenAs: 'shared', seq: index },
      },
    ])
  }
  const config = join(storage.url.slice('file:'.length), 'config.json')
  await writeFile(config, JSON.stringify({ storage: { url: storage.url } }))

  const { out } = await runCommand(['ledger', '--config', config, '--json'])
  const lines = out.trim().split('\n')
  t.equal(lines.length, ENTRIES)
  t.match(JSON.parse(lines[0] as string), {
    ...{ id: `call-${ENTRIES - 1}`, caller: 'acme', account: '{"account_id":"acc_1"}', action: 'activate' },
    ...{ signalHandle: 'sig_a', offerHandle: 'sig_a.12345678', upstream: 'northwind', outcome: 'pending' },
    ...{ pricingOptionId: 'sig_a.12345678.po', destinations: [{ platform: 'dsp' }], createdAt: Number },
  })
  t.match(await runCommand(['ledger', '--config', config]), { out: /50 entries, the newest of more/ })
})

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

test('a move from where no server ran is refused, and leaves nothing behind', async (t) => {
  const folder = (await embedded(t)).url.slice('file:'.length)
  const config = join(folder, 'config.json')
  await writeFile(config, JSON.stringify({ storage: { url: `file:${folder}/none` } }))
  const { code, err } = await runCommand(['move-storage', '--config', config, '--to', `file:${folder}/to`])
  t.equal(code, 1)
  t.match(err, /there is no storage at .*none; run this where/)
})
