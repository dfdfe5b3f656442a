import { type Test, test } from 'tap'
import { createBrief } from '../../src/briefs/brief.js'
import { createFeed } from '../../src/feed/feed.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { createFanout } from '../../src/upstreams/fanout.js'
import { agentUrl, buyer, judgeThat, listing, sliceOf } from '../feed/world.js'
import { briefAnswer } from '../support/upstream-answers.js'
import { createManualClock } from '../support/upstream-clock.js'

const BUDGET_MS = 1_000
const ORDERING_MS = 20

/** A question to two upstreams that answer when told; putting what they said in order takes time. */
function asking(t: Test) {
  const { clock, advance } = createManualClock()
  const judge = judgeThat({})
  const feed = createFeed({ cursorSecret: 'secret', retain: { ms: 1, bytes: 2 ** 30 } })
  feed.publish(buildSnapshot({ slices: [sliceOf('north', [listing('s0')])], judge }), 0)
  const open = new Map<string, (outcome: AgentOutcome) => void>()
  const fanout = createFanout({ clock, call: (id) => new Promise((resolve) => open.set(id, resolve)) })
  t.teardown(fanout.close)
  const statuses = ['north', 'south'].map((id) => ({
    ...{ id, url: agentUrl(id), agentUrl: agentUrl(id), name: id, listings: 0, dropped: {} },
    state: 'fresh' as const,
  }))
  const counted: number[] = []
  const brief = createBrief({
    ...{ feed, fanout, clock, judge: () => judge, upstreams: { statuses: () => statuses } },
    access: () => ({ scope: 'public' }),
    async ranking(_input, _reader, { lists }) {
      counted.push(lists.length)
      advance(ORDERING_MS)
      return { hits: [], relevance: { labels: [], of: new Map(), first: 0 } }
    },
  })
  const startedAt = clock.now()
  const inquiry = brief.ask({ signal_spec: 'coffee' }, buyer, startedAt + BUDGET_MS)
  let endedAt: number | undefined
  void inquiry.prepared(startedAt + BUDGET_MS).then(() => {
    endedAt = clock.now() - startedAt
  })
  const turns = async () => {
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate)
  }
  return {
    counted,
    rank: inquiry.rank,
    ended: () => endedAt,
    async answer(id: string, segment: string) {
      open.get(id)?.(briefAnswer([listing(segment)]))
      await turns()
    },
    async pass(ms: number) {
      for (let left = ms; left > 0; left -= 1) {
        advance(1)
        await turns()
      }
    },
  }
}

test('what has arrived is put in order before the time is over, so that doing it again still fits', async (t) => {
  const { counted, ended, answer, pass, rank } = asking(t)
  await answer('north', 's1')
  await pass(900)
  t.same(counted, [], 'not long before it is needed')
  await pass(55)
  t.same(counted, [1])
  t.equal(ended(), undefined, 'the other may still answer')
  await pass(30)
  t.equal(ended(), BUDGET_MS - ORDERING_MS)
  await rank()
  t.same(counted, [1, 1])
})

test('an answer that comes after that is taken as well', async (t) => {
  const { counted, ended, answer, pass, rank } = asking(t)
  await answer('north', 's1')
  await pass(955)
  t.same(counted, [1])
  await answer('south', 's2')
  t.ok((ended() ?? BUDGET_MS) < BUDGET_MS - ORDERING_MS, 'nobody is left to wait for')
  await rank()
  t.same(counted, [1, 2])
})

test('nothing is put in order twice when all have answered', async (t) => {
  const { counted, ended, answer } = asking(t)
  await answer('north', 's1')
  await answer('south', 's2')
  t.equal(ended(), 0)
  t.same(counted, [])
})
