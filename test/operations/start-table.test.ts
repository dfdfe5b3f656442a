/** What `tributary serve` says at its start of each upstream. */
import { test } from 'tap'
import { upstreamTable } from '../../src/commands/serve.js'
import { startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

test('rows that were read and are not in the feed yet are told as such', async (t) => {
  const agent = await startMcpAgent(wholesaleAgent([row(1)], 'v1').handle)
  t.teardown(() => agent.close())
  const { federation } = await startOver(t, [{ id: 'north', url: agent.url }])
  const statuses = federation.statuses()
  t.same(upstreamTable(statuses, await federation.contributions()), [['north', 'fresh', '1', '1', '']])
  const before = upstreamTable(statuses, []) // as a feed tells it that was put together before these rows came
  t.same(before, [['north', 'fresh', '1', '0', 'read after the feed was put together: its signals follow']])
})
