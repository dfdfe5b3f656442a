import { sql } from 'kysely'
import { onEveryStorage } from './support/storages.js'

const row = (handle: string, scope = 'public', listing = '{"name":"a"}') => ({
  ...{
    handle,
    upstream: 'oldmill',
    agentUrl: 'https://oldmill.example/mcp',
    scope,
    segment: 'seg_1',
    listing,
  },
})

onEveryStorage('found rows are replaced by name and read by handle, in every scope', async (t, storage) => {
  const { found } = await storage.open()
  await found.put([row('sig_1'), row('sig_1', 'acme'), row('sig_2')])
  await found.put([row('sig_1', 'public', '{"name":"b"}')])
  const byScope = (await found.read(['sig_1', 'sig_3'])).sort((a, b) => (a.scope < b.scope ? -1 : 1))
  t.same(byScope, [row('sig_1', 'acme'), row('sig_1', 'public', '{"name":"b"}')])
  t.same(await found.read([]), [])
})

onEveryStorage('the oldest found rows make room', async (t, storage) => {
  const { found, db } = await storage.open()
  await sql`
    insert into found (handle, upstream, agent_url, scope, segment, listing, found_at)
    with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 49999)
    select 'sig_old_' || n, 'oldmill', 'https://oldmill.example/mcp', 'public', 'seg_1', '{"name":"a"}', n
    from numbers`.execute(db)
  storage.clock.now += 100_000
  await found.put([row('sig_new')])
  t.same(await found.read(['sig_old_0', 'sig_new']), [row('sig_new')])
  t.equal((await found.read(['sig_old_1'])).length, 1)
})
