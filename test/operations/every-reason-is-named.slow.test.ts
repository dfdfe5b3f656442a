import { hash } from 'node:crypto'
import { test } from 'tap'
import type { Explanation } from '../../src/explain/explain.js'
import { WHY } from '../../src/explain/remedies.js'
import { optionId } from '../../src/merge/identity.js'
import { systemClock } from '../../src/net/clock.js'
import { createWeb } from '../authz/world.js'
import { agent, openTributary, startRegistry } from '../support/listing-registry.js'
import { startHttp, startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { until } from '../support/upstream-world.js'

const OPERATOR = 'operator-key'
const DAY = 86_400_000
const OPEN_AFTER_MS = 2_000 // one of the agents hangs
const HOUR = 3_600_000
const NOBODY = 'http://127.0.0.1:2/mcp'

function row(domain: string, signal_id: string, more: Record<string, unknown> = {}) {
  return {
    signal_ref: { scope: 'data_provider', data_provider_domain: domain, signal_id },
    signal_agent_segment_id: `segment_${signal_id}`,
    name: `Signal ${signal_id}`,
    description: 'People who were seen',
    signal_type: 'marketplace',
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: false }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 2, currency: 'USD' }],
    ...more,
  }
}

function grant(url: string, ids: string[], more: Record<string, unknown> = {}) {
  return { url, authorized_for: 'signals', authorization_type: 'signal_ids', signal_ids: ids, ...more }
}

const published = (ids: string[]) =>
  ids.map((id) => ({ id, name: `Published ${id}`, value_type: 'binary', countries: undefined }))

const targets = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ type: 'platform', platform: `p${at}`, is_live: false }))

test('for every way a signal can be missing, explain names the true reason', async (t) => {
  const P = 'p.example'
  const ids = ['good', 'not_for_it', 'too_late', 'nowhere', 'nobody_lists', 'of_dead', 'of_slow', 'of_banned']
  const more = ['twice', 'crowded', 'goes', 'of_leaver', 'of_mortal']
  const mainRows = [
    ...['good', 'not_for_it', 'too_late', 'unpublished', 'goes'].map((id) => row(P, id)),
    row(P, 'nowhere', { countries: ['US'] }),
    row(P, 'twice', { signal_agent_segment_id: 'segment_twice_a' }),
    row(P, 'twice', { signal_agent_segment_id: 'segment_twice_b' }),
    row(P, 'crowded', { signal_agent_segment_id: 'segment_small' }),
    ...[1, 2, 3, 4, 5, 6].map((at) =>
      row(P, 'crowded', { signal_agent_segment_id: `segment_large_${at}`, deployments: targets(1_000) }),
    ),
    row('absent.example', 'no_file'),
    row('old.example', 'was_good', {
      pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 9, currency: 'EUR' }],
    }),
    row('watched.example', 'contested'),
    row(P, 'nameless', { name: '' }),
    {
      ...row(P, 'x'),
      signal_ref: { scope: 'product', signal_id: 'of_a_product' },
      signal_agent_segment_id: 'seg_product',
    },
  ]
  const main = wholesaleAgent(mainRows, 'v1')
  const mainAgent = await startMcpAgent(main.handle)
  const rival = await startMcpAgent(
    wholesaleAgent([row('watched.example', 'contested'), row(P, 'good')], 'v1').handle,
  )
  const leaver = await startMcpAgent(wholesaleAgent([row(P, 'of_leaver')], 'v1').handle)
  const mortal = await startMcpAgent(wholesaleAgent([row(P, 'of_mortal')], 'v1').handle)
  const slow = await startHttp(() => new Promise(() => {}))
  const banned = 'http://127.0.0.1:3/mcp'
  for (const each of [mainAgent, rival, leaver, slow]) t.teardown(() => each.close())

  const web = await createWeb()
  t.teardown(() => web.close())
  const file = (domain: string, body: unknown, status = 200) =>
    web.page(`${domain}/.well-known/adagents.json`, { status, body })
  file(P, {
    signals: published([...ids, ...more]),
    authorized_agents: [
      grant(mainAgent.url, ['good', 'twice', 'crowded', 'goes']),
      grant(mainAgent.url, ['too_late'], { effective_until: '2020-01-01T00:00:00Z' }),
      grant(mainAgent.url, ['nowhere'], { countries: ['DE'] }),
      grant(mainAgent.url, ['nobody_lists']),
      grant(`${rival.url}/`, ['good']),
      ...[NOBODY, slow.url, banned].map((url, at) =>
        grant(url, [['of_dead', 'of_slow', 'of_banned'][at] as string]),
      ),
      grant(leaver.url, ['of_leaver']),
      grant(mortal.url, ['of_mortal']),
    ],
  })
  file('old.example', {
    signals: published(['was_good']),
    authorized_agents: [grant(mainAgent.url, ['was_good'])],
  })
  file('watched.example', {
    signals: published(['contested']),
    authorized_agents: [grant(mainAgent.url, ['contested'])],
  })

  const registry = await startRegistry(t, [
    agent('signals', 'leaver', { url: leaver.url, mcp_endpoint: leaver.url }),
  ])
  let ahead = 0
  const clock = { ...systemClock, now: () => Date.now() + ahead }
  const domains = [P, 'absent.example', 'old.example', 'watched.example']
  const federation = await openTributary(
    t,
    {
      registries: [{ url: registry.url, refresh: '1s' }],
      upstreams: [
        { id: 'main', url: mainAgent.url, protocol: 'mcp' },
        { id: 'rival', url: rival.url, protocol: 'mcp' },
        { id: 'mortal', url: mortal.url, protocol: 'mcp' },
        { id: 'dead', url: NOBODY, protocol: 'mcp' },
        { id: 'slow', url: slow.url, protocol: 'mcp' },
        { url: banned, exclude: true },
      ],
      defaults: { refresh: '1s', timeout: '60s', stale_after: '1h', drop_after: '1h' },
      authorization: { refresh: '1s', providers: { 'watched.example': { policy: 'observe' } } },
      egress: {
        allow_networks: ['127.0.0.0/8'],
        hosts: Object.fromEntries(domains.map((domain) => [domain, web.origin])),
      },
      callers: {
        anonymous: 'metadata',
        keys: [
          { id: 'op', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' },
          { id: 'buyer', token_sha256: hash('sha256', 'buyer-key', 'hex') },
        ],
      },
    },
    clock,
    OPEN_AFTER_MS,
  )
  const covered = new Set<string>()

  async function ask(question: Record<string, string>): Promise<Explanation> {
    const response = await fetch(`${federation.url}/explain?${new URLSearchParams(question)}`, {
      headers: { authorization: `Bearer ${OPERATOR}` },
    })
    const explanation = (await response.json()) as Explanation
    covered.add(explanation.reason)
    if (explanation.explanation !== WHY[explanation.reason])
      throw new Error(`not the sentence of ${explanation.reason}`)
    return explanation
  }
  const about = (ref: string) => ask({ ref })

  /** Asks until the reason is there: what it waits for takes a refresh. */
  async function eventually(ref: string, reason: string): Promise<Explanation> {
    let last = await about(ref)
    for (const end = Date.now() + 60_000; last.reason !== reason && Date.now() < end; ) {
      await new Promise((resolve) => setTimeout(resolve, 50))
      last = await about(ref)
    }
    return last
  }

  t.match(await about('p.example/good'), { reason: 'starting' }, 'nothing is missing before the feed is open')
  await federation.ready

  await until('whoever answers is in the feed', async () => {
    const found = new Set((await federation.contributions()).map(({ upstream }) => upstream))
    return ['main', 'rival', 'mortal'].every((id) => found.has(id))
  })
  const good = await eventually('p.example/good', 'present')
  t.match(good, {
    kind: 'signal',
    reason: 'present',
    signal: {
      shown: true,
      defined_by_provider: true,
      conflicts: [{ field: 'name', taken_from: 'the provider', differing: ['main'] }],
    },
  })
  const offerOf = ({ signal }: Explanation, id: string) =>
    signal?.offers.find(({ upstream }) => upstream === id)
  t.match(offerOf(good, 'main'), {
    ...{ fate: 'stands', verdict: 'authorized' },
    evidence: { grants: [{ at: '/authorized_agents/0' }] },
  })
  t.match(offerOf(good, 'rival'), { fate: 'not_authorized', evidence: { reason: 'agent_not_listed' } })
  t.same(good.upstreams.map(({ id }) => id).sort(), ['main', 'rival'])

  const signals: [ref: string, reason: string, detail?: string][] = [
    ['p.example/never_was', 'unknown'],
    ['nobody.example/never_was', 'unknown'],
    ['sig_AAAAAAAAAAAAAAAAAAAAAA', 'unknown'],
    ['anything else', 'unknown'],
    ['p.example/not_for_it', 'not_authorized', 'agent_not_listed_for_signal'],
    ['p.example/too_late', 'not_authorized', 'outside_window'],
    ['p.example/unpublished', 'not_authorized', 'signal_not_published'],
    ['absent.example/no_file', 'not_authorized', 'no_file'],
    ['segment_no_file', 'not_authorized', 'no_file'],
    ['p.example/nowhere', 'no_country_left'],
    ['p.example/nobody_lists', 'not_offered'],
    ['p.example/of_dead', 'upstream_absent', 'unreachable'],
    ['p.example/of_slow', 'upstream_starting'],
    ['p.example/of_banned', 'upstream_excluded', 'excluded'],
    ['p.example/nameless', 'refused_row', 'bad_name'],
    ['segment_nameless', 'refused_row', 'bad_name'],
    ['of_a_product', 'refused_row', 'product_scope'],
    ['seg_product', 'refused_row', 'product_scope'],
    ['segment_twice_a', 'present'],
    ['segment_twice_b', 'present'],
    ['segment_small', 'present'],
    ['segment_large_5', 'present'],
    ['segment_large_6', 'no_room'],
    ['main', 'present'],
    ['dead', 'upstream_absent', 'unreachable'],
    ['slow', 'upstream_starting'],
    [banned, 'upstream_excluded', 'excluded'],
    ['https://stranger.example/mcp', 'unknown'],
    ['rival', 'nothing_published'],
  ]
  for (const [ref, reason, detail] of signals) {
    const told = await eventually(ref, reason)
    t.match(told, { reason, ...(detail && { detail }) }, `${ref}: ${reason} ${detail ?? ''}`)
  }

  const leaverId = federation.statuses().find(({ url }) => url === leaver.url)?.id ?? ''
  await eventually('watched.example/contested', 'present')
  const rivals = async () =>
    (await federation.contributions()).find(({ upstream }) => upstream === 'rival')?.reasons
  await until('both are withheld for good', async () => (await rivals())?.has('outranked') === true)
  t.same(
    await rivals(),
    new Map([
      ['outranked', 1],
      ['agent_not_listed', 1],
    ]),
    'what gives way under a policy that would let it in has its own word',
  )

  await t.test('one offer can be asked for by its handle', async (t) => {
    const contested = await about('watched.example/contested')
    const main = offerOf(contested, 'main')?.handle ?? ''
    const rival = offerOf(contested, 'rival')?.handle ?? ''
    t.match(await about(main), { reason: 'present' })
    t.match(await about(optionId(main, 'po')), { reason: 'present' }, 'a price of that offer')
    t.match(await about(optionId(main, 'past')), { reason: 'offer_unknown' }, 'one that it does not ask')
    t.match(await about(rival), { reason: 'outranked', upstreams: [{ id: 'rival' }] })
    t.match(await about(`${contested.signal?.handle}.AAAAAAAA`), { reason: 'offer_unknown' })
  })

  await t.test('a near miss is told in words', async (t) => {
    const { hint } = await about('rival')
    t.match(hint, /lists it with a trailing slash/)
  })

  await t.test('what a caller does not see of a signal that is there', async (t) => {
    const ref = 'p.example/good'
    t.match(await ask({ ref, caller: 'anonymous' }), { reason: 'present', detail: 'prices_hidden' })
    t.match(await ask({ ref, caller: 'buyer' }), {
      reason: 'present',
      view: { access: 'full', prices: 'shown' },
    })
    t.match(await ask({ ref, caller: 'buyer', filters: '{"max_cpm":1,"catalog_types":["marketplace"]}' }), {
      reason: 'filtered_out',
      detail: 'filters.max_cpm',
      view: { filtered_by: ['filters.max_cpm'] },
    })
    const inEuros = '{"max_cpm":5,"ext":{"tributary":{"currency":"EUR"}}}'
    t.match(await ask({ ref: 'old.example/was_good', caller: 'buyer', filters: inEuros }), {
      detail: 'filters.max_cpm',
    })
    t.match(await ask({ ref, caller: 'buyer', filters: '{"min_coverage_percentage":5}' }), {
      detail: 'filters.min_coverage_percentage',
    })
    const destinations = JSON.stringify([{ type: 'platform', platform: 'dv360' }])
    t.match(await ask({ ref, caller: 'buyer', destinations }), { detail: 'destinations' })
  })

  await t.test('what was there and is not any more', async (t) => {
    main.publish(
      mainRows.filter(({ signal_ref }) => signal_ref.signal_id !== 'goes'),
      'v2',
    )
    await mortal.close()
    registry.records.length = 0
    const asked = registry.requests.length
    t.match(await eventually('p.example/goes', 'withdrawn'), {
      reason: 'withdrawn',
      upstreams: [{ id: 'main' }],
    })
    t.match((await about('p.example/goes')).left_at, /^20/)
    await until('a listing without anybody was read', async () => registry.requests.length > asked + 1)
    ahead = 2 * HOUR // past the caps of what a registry without anybody, and an agent without an answer, leave
    t.match(await eventually('p.example/of_leaver', 'upstream_left'), { reason: 'upstream_left' })
    const left = {
      reason: 'upstream_left',
      left_at: /^20/,
      former: { id: leaverId, agent_url: leaver.url, source: registry.url },
      hint: /was listed by http:.* until 20.*an entry under upstreams/,
    }
    for (const ref of [leaverId, leaver.url, 'segment_of_leaver']) t.match(await about(ref), left, ref)
    t.match(await eventually('p.example/of_mortal', 'upstream_absent'), {
      reason: 'upstream_absent',
      detail: 'unreachable',
    })
  })

  await t.test('a file past its cap proves nothing any more', async (t) => {
    t.match(await eventually('old.example/was_good', 'present'), { reason: 'present' })
    const page = 'old.example/.well-known/adagents.json'
    const before = web.asked(page)
    file('old.example', 'sorry', 503)
    await until('it was asked for again', () => web.asked(page) > before)
    ahead = 8 * DAY
    // Once the server was asked again after the cap, its failure is the nearer reason.
    t.match(await eventually('old.example/was_good', 'not_authorized'), {
      reason: 'not_authorized',
      detail: /^(expired|unreachable)$/,
      signal: { offers: [{ verdict: 'unverifiable', evidence: { reason: /^(expired|unreachable)$/ } }] },
    })
  })

  t.same(
    [...Object.keys(WHY)].filter((why) => !covered.has(why)),
    ['hidden_from_caller', 'not_for_account'],
    'every word was proved, those below and where accounts are explained',
  )
})

test('an anonymous caller who may read nothing misses every signal', async (t) => {
  const native = { ...row('p.example', 'own'), signal_type: 'owned', signal_ref: undefined }
  const upstream = await startMcpAgent(wholesaleAgent([native], 'v1').handle)
  t.teardown(() => upstream.close())
  const keys = [{ id: 'op', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' }]
  const { url, ready } = await openTributary(t, {
    upstreams: [{ id: 'own', url: upstream.url }],
    callers: { anonymous: 'deny', keys },
  })
  await ready
  const response = await fetch(`${url}/explain?ref=segment_own&caller=anonymous`, {
    headers: { authorization: `Bearer ${OPERATOR}` },
  })
  t.match(await response.json(), { reason: 'hidden_from_caller', view: { access: 'none' } })
})

test('only operators may ask, and a question must be one', async (t) => {
  const keys = [
    { id: 'op', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' },
    { id: 'buyer', token_sha256: hash('sha256', 'buyer-key', 'hex') },
  ]
  const { url, ready } = await openTributary(t, { callers: { anonymous: 'deny', keys } })
  await ready
  const status = async (query: string, key?: string) => {
    const headers: Record<string, string> = key ? { authorization: `Bearer ${key}` } : {}
    const response = await fetch(`${url}/explain?${query}`, { headers })
    return [response.status, await response.json()]
  }
  t.match(await status('ref=x'), [401, { error: /required/ }])
  t.match(await status('ref=x', 'buyer-key'), [403, { error: /operator/ }])
  t.match(await status('', OPERATOR), [400, { parameter: 'ref' }])
  t.match(await status('ref=x&filters=no', OPERATOR), [400, { parameter: 'filters' }])
  t.match(await status('ref=x&destinations=[1]', OPERATOR), [400, { parameter: 'destinations' }])
  t.match(await status('ref=x&filters={"max_cpm":"dear"}', OPERATOR), [
    400,
    { error: /filters\.max_cpm must be a number/ },
  ])
  t.match(await status('ref=x&country=Germany', OPERATOR), [400, { parameter: 'countries' }])
  t.match(await status('ref=x', OPERATOR), [200, { reason: 'unknown', kind: 'unknown' }])
})
