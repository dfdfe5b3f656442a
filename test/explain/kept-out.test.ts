/** What explain says of an agent that an operator left out, and of what it offered. */
import { test } from 'tap'
import type { Verdict } from '../../src/authz/rules/verdict.js'
import { createDepartures, createFormerUpstreams } from '../../src/explain/absence.js'
import { createExplainer, type Explanation } from '../../src/explain/explain.js'
import { contributionsOf } from '../../src/explain/upstream.js'
import { drained } from '../../src/process/portions.js'
import { makeRoster } from '../../src/upstreams/roster/roster.js'
import { emptyFeed, publish } from '../feed/feed-of.js'
import { agentUrl, judgeThat, listing, sliceOf } from '../feed/world.js'

const SELLERS = ['alpha', 'beta']
const AUTHORIZED: Verdict = { outcome: 'authorized', grants: [] } as never
const UNAUTHORIZED: Verdict = { outcome: 'unauthorized', reason: 'not_listed' } as never

/** Two agents offer one signal, of whom the provider authorizes the first. */
function start() {
  const judge = judgeThat({
    policy: 'strict',
    decide: (_id, url) => (url === agentUrl('alpha') ? AUTHORIZED : UNAUTHORIZED),
  })
  const feed = emptyFeed()
  const entryOf = (id: string) => ({
    ...{ id, agentUrl: agentUrl(id), url: agentUrl(id), name: id },
    ...{ source: 'https://registry.example', auth: { type: 'none' as const } },
  })
  const slicesOf = (ids: readonly string[]) => ids.map((id) => sliceOf(id, [listing('s1', {})]))
  let slices = slicesOf(SELLERS)
  let snapshot = publish(feed, slices, { judge })
  let roster: object = { entries: SELLERS.map(entryOf), excluded: [] }
  const { explain } = createExplainer({
    ...{ feed, publishedAt: () => 1, judge: () => judge, now: () => 1 },
    provider: () => ({ domain: 'provider.example', version: '', deadline: 0 }) as never,
    providerState: () => undefined,
    ...{ departures: createDepartures(), former: createFormerUpstreams() },
    ...{ callers: () => ({ anonymous: 'metadata', keys: [] }), suspended: () => new Set<string>() },
    roster: () => roster as never,
    statuses: () => SELLERS.map((id) => ({ id, state: 'fresh', listings: 1, dropped: {} })) as never,
    ...{ accountStatuses: () => [], slices: () => slices },
    contributions: async () => drained(contributionsOf(snapshot, judge)),
  })
  return {
    async told(ref: string): Promise<Explanation> {
      const answer = await explain({ ref })
      if (answer.kind !== 'explained') throw new Error(answer.kind)
      return answer.explanation
    },
    useRoster(other: object) {
      roster = other
    },
    leaveOut(id: string) {
      const excluded = [{ url: agentUrl(id), reason: 'excluded' }]
      roster = { entries: SELLERS.filter((one) => one !== id).map(entryOf), excluded }
      slices = slicesOf(SELLERS.filter((one) => one !== id))
      snapshot = publish(feed, slices, { judge })
    },
  }
}

test('an agent that is kept out has not left, and may be let in again', async (t) => {
  const { told, leaveOut } = start()
  t.match(await told('alpha'), { reason: 'present' })
  leaveOut('alpha')
  const { reason, detail, hint, former, left_at } = await told('alpha')
  t.match(
    { reason, detail, hint },
    { reason: 'upstream_excluded', detail: 'excluded', hint: /tributary admit/ },
  )
  t.same([former, left_at], [undefined, undefined])
})

test('the offer of an agent that is kept out is not said to lack in a signal that is there', async (t) => {
  const { told, leaveOut } = start()
  const { signal } = await told('provider.example/s1')
  const handle = signal?.offers.find(({ upstream }) => upstream === 'alpha')?.handle ?? ''
  t.match(await told(handle), { reason: 'present' })
  leaveOut('alpha')
  const whole = await told('provider.example/s1')
  t.equal(whole.reason, 'not_authorized')
  t.match(await told(handle), { reason: 'not_authorized', explanation: whole.explanation })
})

test('an agent that the configuration keeps out from the start is known by its id as well as by its url', async (t) => {
  const { told, useRoster } = start()
  const url = 'https://out.example/mcp'
  useRoster(makeRoster({ registries: [], statics: [{ id: 'out', url, exclude: true }], policy: {} }))
  for (const ref of ['out', url])
    t.match(await told(ref), { reason: 'upstream_excluded', detail: 'excluded' }, ref)
  t.match(await told('other'), { reason: 'unknown' })
})
