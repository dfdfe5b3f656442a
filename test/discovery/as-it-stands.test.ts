/** What agents found is shown as it stands when a page leaves: by current prices, files and roster, whichever page it is. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Test, test } from 'tap'
import { OPERATOR, type Said, startOver } from '../support/federation-over.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES, wholesaleAgent } from '../support/upstream-feed.js'

const PROVIDER = 'provider.example'
const MIRRORED = ['s0', 's1', 's2', 's3']
const ONLY_FOUND = ['f0', 'f1']
const QUESTION = { adcp_version: '3.1', signal_spec: 'electric vehicle models' }
const TOOLS = ['get_signals', 'get_task_status', 'get_adcp_capabilities'].map((name) => ({
  ...{ name, inputSchema: { type: 'object' as const } },
}))

const refOf = (id: string) => ({
  scope: 'data_provider',
  data_provider_domain: PROVIDER,
  signal_id: id,
})

const rowOf = (id: string, cpm: number) => ({
  ...{ signal_ref: refOf(id), signal_agent_segment_id: `seg_${id}`, name: `Signal ${id}` },
  ...{ description: 'Shoppers who compared electric vehicle models', signal_type: 'marketplace' },
  deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: false }],
  pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
})

/** A provider that names who may sell which of its signals; gives where it is read, and a way to publish another file. */
async function startProvider(t: Test) {
  let file: object = {}
  const server = createServer((_, response) => response.end(JSON.stringify(file))).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const grant = (grants: Readonly<Record<string, readonly string[]>>) => {
    file = {
      signals: [...MIRRORED, ...ONLY_FOUND].map((id) => ({
        ...{ id, name: `Signal ${id}`, value_type: 'binary' },
      })),
      authorized_agents: Object.entries(grants).map(([url, signal_ids]) => ({
        ...{ url, authorized_for: 'sale', authorization_type: 'signal_ids', signal_ids },
      })),
    }
  }
  return { hosts: { [PROVIDER]: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }, grant }
}

/** An agent with rows to read, which answers questions with the others, or as `brief` says. */
async function startAgent(t: Test, feed: ReturnType<typeof wholesaleAgent>, brief: () => Said | undefined) {
  const agent = await startMcpAgent(
    (task, args) => {
      if (task === 'get_signals' && args.signal_spec === QUESTION.signal_spec) return brief()
      if (task === 'get_signals' && args.discovery_mode !== 'wholesale') return { status: 'completed' }
      return feed.handle(task, args)
    },
    {},
    TOOLS,
  )
  t.teardown(() => agent.close())
  return agent
}

const answered = (signals: readonly object[]) => ({ status: 'completed', signals })

/** Agent `a` sells all to everybody; `b` has a feed of nothing and finds everything, dearer. */
async function startMarket(t: Test) {
  const provider = await startProvider(t)
  const feed = wholesaleAgent(
    MIRRORED.map((id) => rowOf(id, 2)),
    'v1',
  )
  const all = [...MIRRORED, ...ONLY_FOUND]
  const a = await startAgent(t, feed, () => answered([]))
  const b = await startAgent(t, wholesaleAgent([], 'v1'), () => answered(all.map((id) => rowOf(id, 9))))
  const grantBoth = () => provider.grant({ [a.url]: all, [b.url]: all })
  grantBoth()
  const upstreams = [
    { id: 'a', url: a.url },
    { id: 'b', url: b.url },
  ]
  const over = await startOver(t, upstreams, {
    authorization: { policy: 'strict' },
    egress: { allow_networks: ['127.0.0.0/8'], hosts: provider.hosts },
    defaults: { refresh: '1h', seeds_from_briefs: false },
  })
  const act = (action: string, subject: string) =>
    fetch(`${over.federation.url}/console/api/actions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${OPERATOR}`, 'content-type': 'application/json' },
      body: JSON.stringify({ action, subject }),
    })
  const inFeed = (holds: (signals: Said[]) => boolean) =>
    until(
      () => over.wholesale(),
      ({ signals = [] }) => holds(signals),
    )
  await inFeed((signals) => signals.length === MIRRORED.length)
  return {
    ...{ over, upstreams, inFeed },
    async raisePrices() {
      feed.publish(
        MIRRORED.map((id) => rowOf(id, 5)),
        'v2',
      )
      await over.post('/refresh?upstream=a')
      await inFeed((signals) => signals.every((signal) => pricesOf(signal).join() === '5'))
    },
    /** Until what `b` found is shown or not. */
    async grantToB(is: boolean) {
      if (is) grantBoth()
      else provider.grant({ [a.url]: all })
      await act('refresh-provider', PROVIDER)
      const lookup = { adcp_version: '3.1', signal_refs: [refOf('f0')] }
      await until(
        () => over.call('get_signals', lookup),
        ({ signals = [] }) => signals.length === (is ? 1 : 0),
      )
    },
  }
}

const pricesOf = ({ pricing_options = [] }: Said) => pricing_options.map(({ cpm }: Said) => cpm).sort()
const idOf = ({ signal_ref }: Said) => signal_ref.signal_id
const sellersOf = ({ ext }: Said) => ext.tributary.offers.map(({ upstream }: Said) => upstream).sort()

/** Whom the signals of a page are bought of, and for how much. */
const soldIn = ({ signals = [] }: Said) =>
  Object.fromEntries(
    signals.map((signal: Said) => [idOf(signal), [sellersOf(signal).join(), pricesOf(signal).join()]]),
  )

for (const [kind, input] of [
  ['a brief', QUESTION],
  ['a lookup', { adcp_version: '3.1', signal_refs: [...MIRRORED, ...ONLY_FOUND].map(refOf) }],
] as const) {
  test(`further pages of ${kind} show current prices, by current files, of agents that are in the roster`, async (t) => {
    const { over, upstreams, raisePrices, grantToB } = await startMarket(t)
    await over.call('get_signals', QUESTION)
    const page = (pagination: object) => over.call('get_signals', { ...input, pagination })
    const first = await page({ max_results: 1 })
    const { cursor } = first.pagination
    const rest = () => page({ max_results: 50, cursor })
    const shown = Object.keys(soldIn(await rest()))
    t.equal(shown.length, 5)
    const mirrored = shown.filter((id) => MIRRORED.includes(id))
    const ofFeed = Object.fromEntries(mirrored.map((id) => [id, ['a', '5']]))

    await raisePrices()
    for (const [id, sold] of Object.entries(soldIn(await rest()))) {
      const isMirrored = MIRRORED.includes(id)
      const isMerged = isMirrored && kind === 'a brief'
      t.same(sold, isMerged ? ['a,b', '5,9'] : isMirrored ? ['a', '5'] : ['b', '9'], id)
    }
    await grantToB(false)
    t.same(soldIn(await rest()), ofFeed, 'what the provider no longer grants is gone')
    t.same(
      Object.keys(soldIn(await rest())),
      mirrored.sort((one, other) => shown.indexOf(one) - shown.indexOf(other)),
      'in the same order',
    )
    await grantToB(true)
    t.same(Object.keys(soldIn(await rest())), shown, 'granted again, it is back')

    over.reload({ upstreams: [upstreams[0], { ...upstreams[1], exclude: true }] })
    t.same(soldIn(await rest()), ofFeed, 'an agent that has left sells nothing')
  })
}

test('every page of an answer names the same absentees', async (t) => {
  const feed = wholesaleAgent(
    MIRRORED.map((id) => rowOf(id, 2)),
    'v1',
  )
  const a = await startMcpAgent(feed.handle)
  t.teardown(() => a.close())
  const over = await startOver(t, [
    { id: 'a', url: a.url },
    { id: 'gone', url: 'http://127.0.0.1:9/mcp' },
  ])
  const first = await over.call('get_signals', { ...QUESTION, pagination: { max_results: 1 } })
  t.match(first.incomplete, [{ scope: 'signals', description: /^gone is absent/ }])
  const { cursor } = first.pagination
  const second = await over.call('get_signals', { ...QUESTION, pagination: { max_results: 2, cursor } })
  t.equal(second.signals.length, 2)
  t.same(second.incomplete, first.incomplete)
})

test('a question that outlives its request sells nothing of an agent that has left meanwhile', async (t) => {
  const provider = await startProvider(t)
  let isDone = false
  const task = () =>
    isDone
      ? { status: 'completed', task_id: 'theirs', result: answered([]) }
      : { status: 'working', task_id: 'theirs' }
  const agent = (brief: () => Said) =>
    startMcpAgent(
      (name, args) => {
        if (name === 'get_adcp_capabilities') return CAPABILITIES
        if (name === 'get_task_status') return task()
        if (args.discovery_mode !== 'wholesale') return brief()
        return { ...answered([rowOf('s0', 1)]), cache_scope: 'public', wholesale_feed_version: 'v1' }
      },
      {},
      TOOLS,
    )
  const a = await agent(() => answered([rowOf('f0', 2)]))
  const b = await agent(() => ({ status: 'submitted', task_id: 'theirs' }))
  t.teardown(() => a.close())
  t.teardown(() => b.close())
  provider.grant({ [a.url]: ['f0', 's0'], [b.url]: ['s0'] })
  const upstreams = [
    { id: 'a', url: a.url },
    { id: 'b', url: b.url },
  ]
  const egress = {
    ...{ allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'], hosts: provider.hosts },
  }
  const over = await startOver(t, upstreams, { authorization: { policy: 'strict' }, egress })
  const { task_id } = await over.call('get_signals', {
    ...{ ...QUESTION, time_budget: { interval: 1, unit: 'seconds' } },
    push_notification_config: {
      url: 'http://127.0.0.1:9/hook',
      ...{ operation_id: 'op' },
      authentication: { schemes: ['Bearer'], credentials: 'a-bearer-token-of-at-least-32-characters' },
    },
  })
  t.type(task_id, 'string')
  over.reload({ upstreams: [{ ...upstreams[0], exclude: true }, upstreams[1]] })
  isDone = true
  const { result } = await until<Said>(
    () => over.call('get_task_status', { task_id, include_result: true }),
    ({ status }) => status === 'completed',
  )
  t.same(
    result.signals.filter((signal: Said) => idOf(signal) === 'f0'),
    [],
  )
  t.same(
    result.ext.tributary.upstreams.map(({ id }: Said) => id),
    ['b'],
  )
})
