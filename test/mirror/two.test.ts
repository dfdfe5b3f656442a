/** Two mirrors on the tables of one database, which are for one: nobody finds there what neither of them read. */
import { test } from 'tap'
import { openFeedMirror } from '../../src/mirror/mirror.js'
import { openPostgresCopy } from '../../src/mirror/tables.js'
import { bare, NO_POSTGRES } from '../store/support/storages.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'

const rowsOf = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, n) => {
    const id = `s${from + n}`
    return { id, row: { signal_agent_segment_id: id } }
  })

test('a walk that lost rows to another mirror is not committed', { skip: NO_POSTGRES }, async (t) => {
  const storage = await bare(t)
  if (!storage) return
  const [one, other] = [
    await openPostgresCopy(storage.url, t.comment),
    await openPostgresCopy(storage.url, t.comment),
  ]
  t.teardown(() => Promise.all([one.close(), other.close()]))
  const state = { source: 'an agent', version: 'v1', rows: 5, walkedAt: 0, incomplete: [] }
  const first = await one.replace()
  await first.add(rowsOf(0, 5))
  await first.commit(state)
  const next = await one.replace()
  await next.add(rowsOf(0, 10))
  await other.replace()
  await next.add(rowsOf(10, 20))
  await t.rejects(next.commit({ ...state, version: 'v2', rows: 20 }), /another mirror works on these tables/)
  t.same(await one.state(), state)
})

test('a copy of one agent is never taken for one of another', { skip: NO_POSTGRES }, async (t) => {
  const storage = await bare(t)
  if (!storage) return
  const mirrorOf = async (rows: number) => {
    const feed = wholesaleAgent(
      rowsOf(0, rows).map(({ row }) => row),
      'v1',
    )
    const agent = await startMcpAgent(feed.handle)
    t.teardown(agent.close)
    const mirror = await openFeedMirror({ url: agent.url, out: storage.url })
    t.teardown(mirror.close)
    return mirror
  }
  const [one, other] = [await mirrorOf(5), await mirrorOf(7)] // on tables that are empty yet
  t.match(await one.read(), { kind: 'replaced', state: { rows: 5 } })
  await t.rejects(other.read(), /holds a copy of something else/)
  t.match(await one.read(), { kind: 'unchanged', state: { rows: 5 } })
})
