/** What a copy says is missing from the feed is what the agent said last, also where no row changed. */
import { test } from 'tap'
import { catchUp } from '../../src/mirror/catching-up.js'
import { createFeedAsker } from '../../src/mirror/feed-asker.js'
import { createInbox } from '../../src/mirror/inbox.js'
import { openJsonLines } from '../../src/mirror/json-lines.js'
import { openFeedMirror } from '../../src/mirror/mirror.js'
import { stepOf } from '../../src/mirror/steps.js'
import { systemClock } from '../../src/net/clock.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'
import { linesPlace, onEveryCopy } from './support/copies.js'

const GAP = { scope: 'wholesale_feed', description: 'an upstream is old' }
const OTHER = { scope: 'pricing', description: 'prices are old' }

type Feed = ReturnType<typeof wholesaleAgent>
type Teardown = { teardown(undo: () => unknown): void }

/** An agent that says so of each of its answers. */
async function startAgent(t: Teardown, { handle }: Feed) {
  let incomplete: object[] | undefined
  const agent = await startMcpAgent(async (task, args) => {
    const answer = (await handle(task, args)) as Record<string, unknown>
    return task === 'get_signals' ? { ...answer, ...(incomplete && { incomplete }) } : answer
  })
  t.teardown(agent.close)
  return {
    url: agent.url,
    says(next?: object[]): void {
      incomplete = next
    },
  }
}

onEveryCopy('what is missing follows the agent while the rows stay', async (t, { out, format, rows }) => {
  const agent = await startAgent(t, wholesaleAgent([row(1), row(2)], 'v1'))
  const open = () => openFeedMirror({ url: agent.url, out, format })
  const mirror = await open()
  t.match(await mirror.read(), { kind: 'replaced', state: { incomplete: [] } })
  for (const said of [[GAP], [GAP, OTHER], [GAP, OTHER], undefined, [OTHER]]) {
    agent.says(said)
    const reading = await mirror.read()
    t.match(reading, { kind: 'unchanged', state: { rows: 2, version: 'v1' } })
    t.same('state' in reading && reading.state.incomplete, said ?? [])
  }
  await mirror.close()
  t.equal((await rows()).length, 2)
  const again = await open()
  t.teardown(again.close)
  const reading = await again.read()
  t.match(reading, { kind: 'unchanged' }, 'and the copy is whole')
  t.same('state' in reading && reading.state.incomplete, [OTHER])
})

test('what is missing is kept with the changes that are told', async (t) => {
  const { out } = await linesPlace(t)
  const agent = await startAgent(t, wholesaleAgent([row(2)], 'v2'))
  const asker = createFeedAsker({ url: agent.url, token: undefined, hosts: {} })
  t.teardown(asker.close)
  const copy = await openJsonLines(out)
  t.teardown(copy.close)
  const { add, commit } = await copy.replace()
  await add([1, 2].map((at) => ({ id: `segment_${at}`, row: row(at) })))
  await commit({
    source: 'an agent',
    version: 'v1',
    scope: 'public',
    rows: 2,
    walkedAt: 0,
    incomplete: [OTHER],
  })
  const inbox = createInbox()
  const event = { event_type: 'signal.removed', payload: { signal_agent_segment_id: 'segment_1' } }
  inbox.put(stepOf({ event, previous_wholesale_feed_version: 'v1', wholesale_feed_version: 'v2' }), 100)
  agent.says([GAP])
  const { signal } = new AbortController()
  const read = () => Promise.reject(new Error('read'))
  const options = { asker, question: {}, copy, inbox, random: () => 0.5, signal, read, canApply: () => true }
  const reading = await catchUp({ ...options, clock: systemClock })
  t.match(reading, { kind: 'applied', state: { version: 'v2', rows: 1 } })
  t.same((await copy.state())?.incomplete, [GAP])
})
