import { Registry } from 'prom-client'
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import type { Send, SendOutcome } from '../../src/net/send.js'
import { createUpstreamMeter } from '../../src/operations/meters.js'
import { createMetrics } from '../../src/operations/metrics.js'
import type { ObservedState } from '../../src/operations/views.js'
import type { UpstreamStatus } from '../../src/upstreams/mirror/scope-status.js'
import type { RosterEntry } from '../../src/upstreams/roster/roster.js'

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

test('ten thousand upstreams make five hundred series and one for the others', async (t) => {
  const statuses = Array.from(
    { length: 10_000 },
    (_, at): UpstreamStatus => ({
      ...{ id: `upstream-${at}`, url: `https://u${at}.example/mcp`, name: '', dropped: {} },
      agentUrl: `https://u${at}.example/mcp`,
      state: 'fresh',
      listings: 1,
    }),
  )
  const observed: ObservedState = {
    config: () => parseConfig('test', '{}', {}),
    configuration: () => ({ revision: 'r' }),
    roster: () => ({ entries: [], excluded: [] }),
    registries: () => [],
    statuses: () => statuses,
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
  const { registry } = createMetrics(observed, () => 0)
  const text = await registry.metrics()
  const rows = text.split('\n').filter((line) => line.startsWith('tributary_upstream_rows{'))
  t.equal(rows.length, 501)
  t.ok(
    rows.includes('tributary_upstream_rows{upstream="others"} 9500'),
    'what has no series of its own is added up',
  )
  t.match(text, /^tributary_snapshot_age_seconds nan$/im, 'what is not there does not look like zero')
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
