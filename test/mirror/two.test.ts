/** Two mirrors on the tables of one database, which are for one: nobody finds there what neither of them read. */
import { test } from 'tap'
import { openPostgresCopy } from '../../src/mirror/copy.js'
import { bare, NO_POSTGRES } from '../store/support/storages.js'

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
