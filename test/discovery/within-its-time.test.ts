import { type Test, test } from 'tap'
import { createBrief } from '../../src/briefs/brief.js'
import { createStanding } from '../../src/briefs/standing.js'
import { createFeed } from '../../src/feed/feed.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { createFanout } from '../../src/upstreams/fanout.js'
import { agentUrl, buyer, judgeThat, listing, sliceOf } from '../feed/world.js'
import { briefAnswer } from '../support/upstream-answers.js'
import { createManualClock } from '../support/upstream-clock.js'

const BUDGET_MS = 1_000
const ORDERING_MS = 20

/** Questions to two upstreams that answer when told; putting what they said in order takes time. */
function asking(t: Test, orderingMs = ORDERING_MS) {
  const { clock, advance } = createManualClock()
  const judge = judgeThat({})
  const feed = createFeed({ cursorSecret: 'secret', retain: { ms: 1, bytes: 2 ** 30 } })
  feed.publish(buildSnapshot({ slices: [sliceOf('north', [listing('s0')])], judge }), 0)
  const open = new Map<string, (outcome: AgentOutcome) => void>()
  const fanout = createFanout({
    clock,
    call: (asked) => new Promise((resolve) => open.set(asked.agentUrl, resolve)),
  })
  t.teardown(fanout.close)
  const statuses = ['north', 'south'].map((id) => ({
    ...{ id, url: agentUrl(id), agentUrl: agentUrl(id), name: id, listings: 0, dropped: {} },
    state: 'fresh' as const,
  }))
  const counted: number[] = []
  const whom = {
    upstreams: { statuses: () => statuses, roster: () => ({ entries: [] }) },
    access: () => ({ scope: 'public' }),
  }
  const brief = createBrief({
    ...{ feed, fanout, clock, ...whom },
    standing: createStanding({ ...whom, judge: () => judge }),
    async ranking(_input, _reader, { lists }) {
      counted.push(lists.length)
      advance(orderingMs)
      return { hits: [], relevance: { labels: [], of: new Map(), first: 0 } }
    },
  })
  let startedAt = 0
  let endedAt: number | undefined
  let isSearchedNow: boolean | undefined

  function ask(searchable = Promise.resolve(true)): void {
    startedAt = clock.now()
    endedAt = undefined
    const question = { signal_spec: `coffee ${startedAt}` }
    const inquiry = brief.ask(question, buyer, startedAt + BUDGET_MS)
    void inquiry.rankedBy(startedAt + BUDGET_MS, searchable).then(({ isSearched }) => {
      endedAt = clock.now() - startedAt
      isSearchedNow = isSearched
    })
  }

  const turns = async () => {
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate)
  }
  return {
    counted,
    ask,
    ended: () => endedAt,
    isSearched: () => isSearchedNow,
    async answer(id: string, segment: string) {
      open.get(agentUrl(id))?.(briefAnswer([listing(segment)]))
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

test('what has arrived is put in order before the time is over, and not again where nothing more came', async (t) => {
  const { counted, ended, ask, answer, pass } = asking(t)
  ask()
  await answer('north', 's1')
  await pass(900)
  t.same(counted, [], 'not long before it is needed')
  await pass(55)
  t.same(counted, [1])
  t.equal(ended(), undefined, 'the other may still answer')
  await pass(30)
  t.equal(ended(), BUDGET_MS - ORDERING_MS)
  t.same(counted, [1])
})

test('an answer that comes after that is taken as well', async (t) => {
  const { counted, ended, ask, answer, pass } = asking(t)
  ask()
  await answer('north', 's1')
  await pass(955)
  t.same(counted, [1])
  await answer('south', 's2')
  t.ok((ended() ?? BUDGET_MS) < BUDGET_MS, 'nobody is left to wait for')
  t.same(counted, [1, 2])
})

test('nothing is put in order twice when all have answered', async (t) => {
  const { counted, ended, ask, answer } = asking(t)
  ask()
  await answer('north', 's1')
  await answer('south', 's2')
  t.equal(ended(), ORDERING_MS)
  t.same(counted, [2])
})

test('nothing is put in order anew when the time is over, and the next question begins with it sooner', async (t) => {
  const slowMs = 400
  const { counted, ended, ask, answer, pass } = asking(t, slowMs)
  ask()
  await answer('north', 's1')
  await pass(960)
  t.ok((ended() ?? 0) < BUDGET_MS + slowMs, 'once and not twice')
  t.same(counted, [1])
  ask()
  await answer('north', 's1')
  await pass(BUDGET_MS)
  t.equal(ended(), BUDGET_MS)
  t.same(counted, [1, 1])
})

test('what waits for an index is answered by then without it, and with it where it comes in time', async (t) => {
  const late = asking(t)
  late.ask(new Promise(() => {}))
  await late.answer('north', 's1')
  await late.answer('south', 's2')
  await late.pass(BUDGET_MS)
  t.same([late.counted, late.isSearched()], [[2], false])
  t.ok((late.ended() ?? BUDGET_MS) < BUDGET_MS)

  const inTime = asking(t)
  let comes: (is: boolean) => void = () => {}
  inTime.ask(
    new Promise((resolve) => {
      comes = resolve
    }),
  )
  await inTime.answer('north', 's1')
  await inTime.answer('south', 's2')
  await inTime.pass(955)
  comes(true)
  await inTime.pass(1)
  t.same([inTime.counted, inTime.isSearched()], [[2, 2], true])
})
