import { test } from 'tap'
import { startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row, until } from '../support/upstream-world.js'

test('what changed under an unchanged token is read when an operator says so', async (t) => {
  const feed = wholesaleAgent([row(1)], 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'liar', url: agent.url }])
  t.equal((await over.wholesale()).signals.length, 1)
  feed.publish([row(1), row(2)], 'v1')
  t.equal((await over.post('/refresh?upstream=liar', 'a-buyer-key')).status, 403)
  t.equal((await over.post('/refresh?upstream=nobody')).status, 404)
  const answer = await over.post('/refresh?upstream=liar')
  t.equal(answer.status, 202)
  t.same(await answer.json(), { upstream: 'liar', reading: 'full' })
  await until('both rows', () => over.federation.contributions()[0]?.published === 2)
  t.equal((await over.wholesale()).signals.length, 2)
})
