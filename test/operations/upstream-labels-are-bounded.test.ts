import { Registry } from 'prom-client'
import { test } from 'tap'
import { recordBytes } from '../../src/authz/provider/files.js'
import type { HeldDocument } from '../../src/authz/rules/verdict.js'
import { parseConfig } from '../../src/config/load.js'
import type { Send, SendOutcome } from '../../src/net/send.js'
import { createUpstreamMeter } from '../../src/operations/meters.js'
import { createMetrics } from '../../src/operations/metrics.js'
import type { ObservedState } from '../../src/operations/views.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import type { UpstreamStatus } from '../../src/upstreams/mirror/scope-status.js'
import type { RosterEntry } from '../../src/upstreams/roster/roster.js'
import { stateWith } from '../authz/compiled.js'

const REPLY: SendOutcome = { kind: 'reply', status: 200, headers: {}, body: new Uint8Array(10), url: '' }

function entry(id: string, url: string): RosterEntry {
  return {
    id,
    url,
    agentUrl: url,
    name: id,
    auth: { type: 'none' },
    seeds: [],
    source: 'static',
    verified: false,
  }
}

const statusOf = ({ id, url }: RosterEntry): UpstreamStatus => ({
  ...{ id, url, agentUrl: url, name: '', dropped: {} },
  state: 'fresh',
  listings: 1,
})

/** What the metrics see of a process with these upstreams. */
function observing(entries: () => readonly RosterEntry[]): ObservedState {
  return {
    config: () => parseConfig('test', '{}', {}),
    configuration: () => ({ revision: 'r' }),
    roster: () => ({ entries: entries(), excluded: [] }),
    registries: () => [],
    statuses: () => entries().map(statusOf),
    accountStatuses: () => [],
    memory: () => ({ usedBytes: 0, limitBytes: 0, evictions: 0 }),
    underWay: { bytes: () => 0, givenUp: () => 0 },
    providers: () => [],
    snapshot: () => undefined,
    publishedAt: () => undefined,
    retained: () => ({ snapshots: 0, bytes: 0 }),
    contributions: async () => [],
    revisions: () => ({ built: 1, wanted: 1, behindMs: 0 }),
  }
}

test('ten thousand upstreams make five hundred series and one for the others', async (t) => {
  const entries = Array.from({ length: 10_000 }, (_, at) =>
    entry(`upstream-${at}`, `https://u${at}.example/mcp`),
  )
  const { registry } = createMetrics(
    observing(() => entries),
    () => 0,
  )
  const text = await registry.metrics()
  const rows = text.split('\n').filter((line) => line.startsWith('tributary_upstream_rows{'))
  t.equal(rows.length, 501)
  t.ok(
    rows.includes('tributary_upstream_rows{upstream="others"} 9500'),
    'what has no series of its own is added up',
  )
  t.match(text, /^tributary_snapshot_age_seconds nan$/im, 'what is not there does not look like zero')
})

test('an upstream that leaves takes its series along, and whoever comes has its own', async (t) => {
  const [stays, url] = [entry('stays', 'https://stays.example/'), 'https://renamed.example/mcp']
  let entries = [stays]
  let answer = () => {}
  const send: Send = async () => REPLY
  const { registry, metered } = createMetrics(
    observing(() => entries),
    () => 0,
  )
  const slow = metered(
    () =>
      new Promise((resolve) => {
        answer = () => resolve(REPLY)
      }),
  )
  const seriesOf = async () =>
    (await registry.metrics()).split('\n').filter((line) => line.includes('upstream="'))
  let waiting: Promise<unknown> = Promise.resolve()
  let before: number | undefined
  for (let reload = 0; reload < 1_000; reload += 1) {
    entries = [stays, entry(`renamed-${reload}`, url)]
    for (const to of [stays.url, url]) await metered(send)({ url: to, timeoutMs: 1, maxBytes: 1 })
    answer()
    await waiting
    waiting = slow({ url, timeoutMs: 1, maxBytes: 1 })
    if (reload % 300 > 1) continue
    const series = await seriesOf()
    before ??= series.length
    t.equal(series.length, before, `after ${reload} reloads`)
    t.ok(series.includes(`tributary_upstream_rows{upstream="renamed-${reload}"} 1`))
    t.ok(series.includes(`tributary_upstream_requests_in_flight{upstream="renamed-${reload}"} 1`))
  }
  entries = [stays]
  answer()
  await waiting
  const left = await seriesOf()
  t.notMatch(left.join('\n'), /renamed/, 'nor does the answer that came after it had left bring one back')
  t.ok(left.includes('tributary_upstream_requests_total{upstream="stays",outcome="2xx"} 1000'))
})

test('a request counts for the upstream it goes to, whatever lies beside its url', async (t) => {
  const registry = new Registry()
  let now = 1_000
  let entries = [
    entry('mcp', 'https://a.example/mcp'),
    entry('a2a', 'https://a.example/a2a'),
    entry('b', 'https://b.example/'),
  ]
  const meter = createUpstreamMeter({
    registry,
    entries: () => entries,
    labelOf: ({ id }) => id,
    now: () => now,
  })
  const reached: string[] = []
  const send: Send = async ({ url }) => {
    reached.push(url)
    now += 40
    if (url.includes('broken')) return { kind: 'failed', reason: 'timeout', message: '' }
    return REPLY
  }
  const metered = meter.metered(send)
  const urls = [
    'https://a.example/mcp',
    'https://a.example/a2a/.well-known/agent.json',
    'https://b.example/broken?secret=1',
    'https://c.example/',
    'no url at all',
  ]
  for (const url of urls) await metered({ url, timeoutMs: 1, maxBytes: 1 })
  t.same(reached, urls, 'every request goes through as it is')

  const text = await registry.metrics()
  const counted = (upstream: string, outcome: string) =>
    text.includes(`tributary_upstream_requests_total{upstream="${upstream}",outcome="${outcome}"} `)
  t.ok(counted('mcp', '2xx'))
  t.ok(counted('a2a', '2xx'))
  t.ok(counted('b', 'timeout'))
  t.ok(counted('other', '2xx'))
  t.notMatch(text, /secret|c\.example/, 'no url is a label')

  t.same(meter.lastAnswer('https://a.example/mcp'), { at: 1_040, ms: 40 })
  t.equal(meter.lastAnswer('https://b.example/'), undefined, 'a failure is no answer')
  entries = []
  await metered({ url: 'https://a.example/mcp', timeoutMs: 1, maxBytes: 1 })
  t.match(
    await registry.metrics(),
    /requests_total\{upstream="other",outcome="2xx"\} 3/,
    'who left the roster is nobody',
  )
})

test('whose request it is is looked up among those of its host, however many there are', async (t) => {
  let read = 0
  const entries = Array.from({ length: 2_000 }, (_, at) => {
    const url = `https://u${at}.example/mcp`
    return Object.defineProperty(entry(`u${at}`, url), 'url', {
      get() {
        read += 1
        return url
      },
    })
  })
  const registry = new Registry()
  const { metered } = createUpstreamMeter({
    ...{ registry, entries: () => entries, labelOf: ({ id }) => id, now: () => 0 },
  })
  const send = metered(async () => REPLY)
  for (let at = 0; at < 2_000; at += 1)
    await send({ url: `https://u${at}.example/mcp`, timeoutMs: 1, maxBytes: 1 })
  t.ok(read <= 2 * entries.length, `${read} urls were read for 2,000 requests`)
  t.match(await registry.metrics(), /requests_total\{upstream="u1999",outcome="2xx"\} 1/)
})

test('times are in seconds, and each number is that of its own part', async (t) => {
  const [one, two] = [entry('one', 'https://one.example/mcp'), entry('two', 'https://two.example/mcp')]
  const file = stateWith({ authorized_agents: [] }).document as HeldDocument
  const held = (digest: string): HeldDocument => ({ ...file, digest })
  const problem = { reason: 'unreachable', message: '', since: 0, passing: true } as const
  const heldPointer = { url: 'https://q.example/adagents.json', since: 0, adoptAt: 1 }
  const scope = (state: 'fresh' | 'stale') => ({ ...statusOf(one), state, scope: 'a', rateCard: false })
  const { registry, eventHeard, built } = createMetrics(
    {
      ...observing(() => [one, two]),
      statuses: () => [
        { ...statusOf(one), confirmedAt: 40_000, nextAttemptAt: 105_000 },
        { ...statusOf(two), nextAttemptAt: 90_000 },
      ],
      accountStatuses: () => [scope('fresh'), scope('fresh'), scope('stale')],
      registries: () => [
        { url: 'https://r.example', agents: 7, diagnostics: [], unvouched: false },
        { url: 'https://s.example', diagnostics: [], unvouched: false, problem },
      ],
      providers: () => [
        { domain: 'a.example', document: held('1'), expiresAt: 100_001 },
        { domain: 'b.example', document: held('1'), expiresAt: 100_001, problem, heldPointer },
        { domain: 'c.example', document: held('2'), expiresAt: 100_000 },
        { domain: 'd.example', problem },
        { domain: 'e.example' },
      ],
      contributions: async () => [
        { upstream: 'one', published: 3, withheld: 4, reasons: new Map([['no_file', 4]]) },
      ],
      publishedAt: () => 98_000,
      revisions: () => ({ built: 1, wanted: 2, behindMs: 3_000 }),
    },
    () => 100_000,
  )
  eventHeard('heard', { gainedMs: 2_500, spared: 2 })
  eventHeard('duplicate')
  const snapshot = (structure: string, pricing: string) => built({ structure, pricing } as Snapshot, 0.3)
  snapshot('s1', 'p1')
  snapshot('s2', 'p1')
  snapshot('s2', 'p2')
  snapshot('s2', 'p2')
  const size = recordBytes(held('1'))
  const lines = (await registry.metrics()).split('\n')
  for (const line of [
    'upstream_age_seconds{upstream="one"} 60',
    'upstream_next_attempt_seconds{upstream="one"} 5',
    'upstream_next_attempt_seconds{upstream="two"} 0',
    'registry_up{registry="https://r.example"} 1',
    'registry_up{registry="https://s.example"} 0',
    'registry_agents{registry="https://r.example"} 7',
    ...['good', 'failing', 'expired', 'unreachable', 'pending'].map(
      (state) => `providers{state="${state}"} 1`,
    ),
    `provider_bytes ${2 * size}`,
    'provider_held_pointers 1',
    'offers{upstream="one",fate="published"} 3',
    'offers{upstream="one",fate="withheld"} 4',
    'account_scopes{state="fresh"} 2',
    'account_scopes{state="stale"} 1',
    'snapshot_age_seconds 2',
    'feed_behind_seconds 3',
    'replicas{revision="REVISION"} 1',
    'upstream_events_gained_seconds_total 2.5',
    'upstream_events_readings_spared_total 2',
    'snapshot_moves_total{what="structure"} 1',
    'snapshot_moves_total{what="pricing"} 1',
  ]) {
    const whole = `tributary_${line}`.replace('REVISION', parseConfig('test', '{}', {}).revision)
    t.ok(lines.includes(whole), whole)
  }
})
