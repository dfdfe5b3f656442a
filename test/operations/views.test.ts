/** What operators are shown, given what the parts of a server say of themselves. */
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { type ActivitySources, createActivity, createJobsView } from '../../src/operations/activity.js'
import { createViews, type ViewSources } from '../../src/operations/views.js'

const EVERYTHING = new URLSearchParams()
const iso = (ms: number) => new Date(ms).toISOString()
const viewsOf = (sources: object) => createViews(sources as ViewSources)

test('the url of a changed pointer is shown without its query, like that of the file', async (t) => {
  const state = {
    domain: 'p.example',
    heldPointer: { url: 'https://cdn.example/adagents.json?sig=planted', since: 0, adoptAt: 86_400_000 },
  }
  const views = viewsOf({ providers: () => [state] })
  const shown = JSON.stringify(await views.providers(EVERYTHING))
  t.match(shown, 'https://cdn.example/adagents.json?…')
  t.notMatch(shown, 'planted')
})

test('providers: those in trouble first, then by domain; all are counted, not only those that are shown', async (t) => {
  const domains = Array.from({ length: 600 }, (_, at) => ({ domain: `p${1_599 - at}.example` }))
  const ill = { domain: 'z.example', problem: { reason: 'timeout', message: '', since: 0 } }
  const told = (await viewsOf({ providers: () => [...domains, ill] }).providers(EVERYTHING)) as {
    total: number
    providers: { domain: string }[]
  }
  t.equal(told.total, 601)
  t.equal(told.providers.length, 500)
  t.same(
    told.providers.slice(0, 3).map(({ domain }) => domain),
    ['z.example', 'p1000.example', 'p1001.example'],
  )
})

test('upstreams: found by their url, by id within a state; registries without what is secret in their urls', async (t) => {
  const statusOf = (id: string) => ({
    ...{ id, name: '', agentUrl: `https://${id}.agents.example/mcp`, state: 'fresh', dropped: {} },
  })
  const views = viewsOf({
    roster: () => ({
      excluded: Array.from({ length: 600 }, (_, at) => ({ url: `https://x${at}.example/` })),
    }),
    statuses: () => [statusOf('b'), statusOf('a'), statusOf('c')],
    upstreams: async (urls: readonly string[]) => urls.map((agent_url) => ({ agent_url, reasons: {} })),
    lastAnswer: () => undefined,
    registries: () => [{ url: 'https://u:planted@r.example/?token=planted', diagnostics: [] }],
  })
  const told = (await views.upstreams(new URLSearchParams({ q: '.AGENTS.' }))) as {
    upstreams: { agent_url: string }[]
  }
  t.same(
    told.upstreams.map(({ agent_url }) => agent_url.slice(8, 9)),
    ['a', 'b', 'c'],
  )
  const all = await views.upstreams(EVERYTHING)
  t.match(all, { excluded_total: 600, excluded: { length: 500 } })
  t.notMatch(JSON.stringify(all), 'planted')
})

test('the overview counts refused rows of all upstreams, each file once, and files that found no room', (t) => {
  const file = (digest: string, url: string) => ({ document: { digest, url, bytes: new Uint8Array(10) } })
  const views = viewsOf({
    memory: () => ({ usedBytes: 1, limitBytes: 2, evictions: 3 }),
    underWay: { bytes: () => 4, givenUp: () => 5 },
    config: () => parseConfig('test', '{}', {}),
    configuration: () => ({}),
    providers: () => [
      ...[file('one', 'https://a.example/'), file('one', 'https://b.example/')],
      ...[{ problem: { reason: 'over_budget' } }, { problem: { reason: 'timeout' } }],
    ],
    statuses: () => [{ dropped: { too_large: 2 } }, { dropped: { too_large: 3, schema: 1 } }],
    snapshot: () => undefined,
    publishedAt: () => undefined,
    revisions: () => ({ built: 1, wanted: 2, behindMs: 3 }),
    limitedCallers: () => [['buyer', 7]],
  })
  t.match(views.overview(EVERYTHING), {
    refused_rows: { too_large: 5, schema: 1 },
    limits: [
      { name: 'memory', used_bytes: 1, limit_bytes: 2, hits: 3 },
      { name: 'under_way', used_bytes: 4, limit_bytes: 512 * 1024 ** 2, hits: 5 },
      { name: 'provider_bytes', used_bytes: 10, limit_bytes: 1024 ** 3, hits: 1 },
    ],
    limited_callers: [{ caller: 'buyer', times: 7 }],
  })
  t.end()
})

test('callers: who has a key, who may and who must sign, who is suspended', (t) => {
  const keyed = (required: boolean) => ({ signing: { jwks_url: 'https://keys.example/', required } })
  const keys = [
    { id: 'plain', token_sha256: 'ab'.repeat(32) },
    { id: 'may', ...keyed(false) },
    { id: 'must', ...keyed(true) },
  ]
  const config = parseConfig('test', JSON.stringify({ callers: { keys } }), {})
  const sources = { config: () => config, accountStatuses: () => [], suspended: () => new Set(['may']) }
  t.match(viewsOf(sources).callers(EVERYTHING), {
    callers: [
      { id: 'plain', has_key: true, signs: 'no', suspended: false },
      { id: 'may', has_key: false, signs: 'may', suspended: true },
      { id: 'must', has_key: false, signs: 'must', suspended: false },
    ],
  })
  t.end()
})

test('the history of an upstream is of hours, and of days where they are asked for', (t) => {
  const history = { of: (upstream: string, span: string) => ({ upstream, span }) }
  const spanOf = (query: string) => viewsOf({ history }).history(new URLSearchParams(query))
  t.same(spanOf('upstream=one&span=days'), { upstream: 'one', span: 'days' })
  t.same(spanOf('upstream=one&span=years'), { upstream: 'one', span: 'hours' })
  t.end()
})

test('a job that waits says when it is tried, never in the past; its url has no secret', async (t) => {
  const job = (isHeld: boolean, dueInMs: number) => ({
    ...{ id: 'j', kind: 'call', lane: 'https://a.example/mcp?token=planted', caller: 'buyer', attempts: 1 },
    ...{ isHeld, dueInMs, createdAt: 1_000 },
  })
  const openJobs = async () => [job(false, 500), job(false, -500), job(true, 500)]
  const { jobs } = await createJobsView({ work: { openJobs }, now: () => 5_000 })()
  t.same(
    jobs.map((shown) => 'next_attempt_at' in shown && shown.next_attempt_at),
    [iso(5_500), iso(5_000), false],
  )
  t.same(
    jobs.map(({ lane, created_at }) => [lane, created_at]),
    Array(3).fill(['https://a.example/mcp', iso(1_000)]),
  )
})

test('activity: when an entry changed last, which subscriber waits for what, which one is suspended', async (t) => {
  const delivery = (stream: object, more: object) => ({
    ...{ caller: 'buyer', account: 'acc', subscriber: 's', host: 'h.example', stream, nextAttemptAt: 9_000 },
    ...more,
  })
  const sources = {
    ledger: { query: async () => [{ handle: 'sig', createdAt: 1_000, updatedAt: 2_000 }] },
    work: {
      backlog: async () => [],
      tasks: async () => [],
      usage: async () => [],
      deliveries: async () => [
        delivery({ pending: [1], failures: 2, failingSince: 3_000 }, {}),
        delivery({}, { suspended: { reason: 'gone' } }),
      ],
    },
  }
  const activity = createActivity({
    ...(sources as unknown as ActivitySources),
    nameOf: (handle) => `name of ${handle}`,
  })
  const { activations, subscriptions } = await activity()
  t.match(activations, [{ name: 'name of sig', asked_at: iso(1_000), updated_at: iso(2_000) }])
  const [waits, suspended] = subscriptions
  t.match(waits, {
    ...{ pending: 1, failures: 2, suspended: false },
    ...{ failing_since: iso(3_000), next_attempt_at: iso(9_000) },
  })
  t.match(suspended, { pending: 0, suspended: true, reason: 'gone' })
  t.notOk(suspended && 'next_attempt_at' in suspended, 'nothing is tried that does not wait')
})
