import { sql } from 'kysely'
import { EMBEDDED_MIGRATIONS } from '../../src/store/migrations.js'
import type { FoundRow } from '../../src/store/records/found.js'
import { onEveryBareStorage, onEveryStorage } from './support/storages.js'

const OLDMILL = 'https://oldmill.example/mcp'
const row = (handle: string, scope = 'public', listing = '{"name":"a"}', agentUrl = OLDMILL) => ({
  ...{ handle, agentUrl, scope, segment: 'seg_1', listing },
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
    insert into found_rows (handle, agent_url, scope, segment, listing, found_at)
    with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 49999)
    select 'sig_old_' || n, 'https://oldmill.example/mcp', 'public', 'seg_1', '{"name":"a"}', n
    from numbers`.execute(db)
  storage.clock.now += 100_000
  await found.put([row('sig_new')])
  t.same(await found.read(['sig_old_0', 'sig_new']), [row('sig_new')])
  t.equal((await found.read(['sig_old_1'])).length, 1)
})

onEveryBareStorage(
  'rows that a release before found by ids of upstreams belong to their agents, the newest of each',
  async (t, storage) => {
    const { db, found, close } = await storage.open()
    await sql`drop table found_rows`.execute(db)
    const put = (upstream: string, agentUrl: string, name: string, at: number, scope = 'public') =>
      sql`insert into found (handle, upstream, scope, segment, agent_url, listing, found_at)
        values ('sig_1', ${upstream}, ${scope}, 'seg_1', ${agentUrl}, ${`{"name":"${name}"}`}, ${at})`.execute(
        db,
      )
    await put('x', OLDMILL, 'old', 1)
    await put('renamed', OLDMILL, 'new', 2)
    await put('a_name', OLDMILL, 'as new', 2)
    await put('other', 'https://other.example/mcp', 'of another', 1)
    await put('x', OLDMILL, 'for an account', 1, 'acme')
    await EMBEDDED_MIGRATIONS['018_expand_found_by_agent']?.up(db)
    const placed = ({ agentUrl, scope }: FoundRow) => `${agentUrl} ${scope}`
    const rows = (await found.read(['sig_1'])).sort((a, b) => (placed(a) < placed(b) ? -1 : 1))
    const pricedFor = 'unknown' // nobody knows any more whether they were everybody's
    t.same(rows, [
      row('sig_1', 'acme', '{"name":"for an account"}'),
      { ...row('sig_1', 'public', '{"name":"new"}'), pricedFor },
      { ...row('sig_1', 'public', '{"name":"of another"}', 'https://other.example/mcp'), pricedFor },
    ])
    await close()
  },
)
