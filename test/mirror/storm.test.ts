/** What a mirror asks of an agent that slows it down and goes on telling it of changes. */
import { test } from 'tap'
import { catchUp } from '../../src/mirror/catching-up.js'
import { createFeedAsker } from '../../src/mirror/feed-asker.js'
import { createInbox } from '../../src/mirror/inbox.js'
import { openJsonLines } from '../../src/mirror/json-lines.js'
import { stepOf } from '../../src/mirror/steps.js'
import { systemClock } from '../../src/net/clock.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { linesPlace } from './support/copies.js'
import { startGate } from './support/gate.js'

const MINUTE_MS = 60_000

test('who is told of changes without end asks no more often than the agent wants', async (t) => {
  const { out } = await linesPlace(t)
  const agent = await startMcpAgent(wholesaleAgent([], 'v0').handle)
  t.teardown(agent.close)
  const gate = await startGate(t, agent.url)
  const asker = createFeedAsker({ url: gate.url, token: undefined, hosts: {} })
  t.teardown(asker.close)
  const copy = await openJsonLines(out)
  t.teardown(copy.close)
  const now = { past: 0 }
  const { commit } = await copy.replace()
  await commit({ source: 'an agent', version: 'v0', rows: 0, walkedAt: 0, incomplete: [] })
  const inbox = createInbox()
  let told = 0
  const tell = () => {
    const [from, to] = [`v${told}`, `v${++told}`]
    const event = { event_type: 'signal.removed', payload: { signal_agent_segment_id: 'any' } }
    inbox.put(stepOf({ event, previous_wholesale_feed_version: from, wholesale_feed_version: to }), 100)
  }
  gate.before(() => {
    tell()
    return { status: 429, headers: { 'retry-after': '30' } }
  })
  tell()
  const clock = {
    now: () => now.past,
    after: (ms: number, task: () => void) =>
      systemClock.after(0, () => {
        now.past += ms
        task()
      }),
  }
  const { signal } = new AbortController()
  const canApply = () => true
  const read = () => Promise.reject(new Error('read'))
  const options = { asker, question: {}, copy, inbox, clock, random: () => 0.5, signal, read, canApply }
  await catchUp(options).catch(() => {})
  t.ok(gate.asked.length <= 2 + (2 * now.past) / MINUTE_MS, `${gate.asked.length} in ${now.past} ms`)
})
