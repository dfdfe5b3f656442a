import { hash } from 'node:crypto'
import { type Test, test } from 'tap'
import { BUYER, type Said, startOver } from '../support/federation-over.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { row } from '../support/upstream-world.js'

/** Says `cache_scope: account` whoever asks, as the protocol SDK's example does. */
async function startPersonalAgent(t: Test) {
  const agent = await startMcpAgent((task) => {
    if (task === 'get_adcp_capabilities') {
      return { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['wholesale'] } }
    }
    if (task !== 'get_signals') return undefined
    return { signals: [row(1)], cache_scope: 'account', wholesale_feed_version: 'v1', pricing_version: 'p1' }
  })
  t.teardown(() => agent.close())
  return agent
}

for (const [account_prices, count, words] of [
  [undefined, 0, /shown to nobody \(account_prices: public/],
  ['public', 1, /shown to all callers/],
] as const) {
  test(`prices for accounts only, with account_prices ${account_prices ?? 'left out'}`, async (t) => {
    const { url } = await startPersonalAgent(t)
    const over = await startOver(t, [{ id: 'personal', url, ...(account_prices && { account_prices }) }])
    for (const life of ['read', 'saved']) {
      const { signals } = await over.wholesale()
      t.equal(signals.length, 1)
      t.equal(signals[0].pricing_options?.length ?? 0, count, life)
      if (life === 'read') await over.restart()
    }
    const explained = await over.explain('personal')
    t.match(explained.upstreams, [{ id: 'personal', notes: [words] }])
  })
}

test('the current account_prices decides on rows that were read under another one', async (t) => {
  const agent = await startPersonalAgent(t)
  const configured = (account_prices: string) => ({
    upstreams: [{ id: 'personal', url: agent.url, account_prices }],
  })
  const over = await startOver(t, configured('public').upstreams)
  const prices = async () => {
    const { signals = [] } = await over.wholesale()
    return signals.map(({ pricing_options = [] }: { pricing_options?: unknown[] }) => pricing_options.length)
  }
  t.same(await prices(), [1])
  await agent.close()
  over.reload(configured('withheld'))
  t.same(await until(prices, ([count]) => count === 0), [0], 'a reload, while the agent is down')
  await over.restart(configured('withheld'))
  t.same(await prices(), [0], 'and what was saved with prices')
})

/** An agent without a feed, and what questions and lookups show of it. */
async function startAsked(t: Test, said = { scope: 'account' }) {
  const agent = await startMcpAgent((task, args) => {
    if (task === 'get_adcp_capabilities') {
      return { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['brief'] } }
    }
    if (task !== 'get_signals') return undefined
    if (args.discovery_mode === 'wholesale') {
      return { status: 'failed', adcp_error: { code: 'UNSUPPORTED_FEATURE', message: 'only briefs' } }
    }
    return { status: 'completed', cache_scope: said.scope, signals: [row(1)] }
  })
  t.teardown(() => agent.close())
  const configured = (account_prices: string, token = 'A') => ({
    upstreams: [{ id: 'personal', url: agent.url, account_prices, auth: { type: 'bearer', token } }],
    defaults: { seeds_from_briefs: false },
  })
  const over = await startOver(t, configured('public').upstreams, { defaults: { seeds_from_briefs: false } })
  const priced = ({ signals = [] }: Said) =>
    signals.map(({ pricing_options = [] }: Said) => pricing_options.length)
  const brief = async (question = 'Signal 1') =>
    priced(await over.call('get_signals', { adcp_version: '3.1', signal_spec: question }))
  const { signal_ref } = row(1)
  const lookup = async () =>
    priced(await over.call('get_signals', { adcp_version: '3.1', signal_refs: [signal_ref] }))
  return { over, configured, brief, lookup }
}

test('what another credential found with the same prices is shown by what it is told', async (t) => {
  const { over, configured, brief, lookup } = await startAsked(t)
  t.same(await until(brief, ([count]) => count === 1), [1])
  over.reload(configured('public', 'B'))
  t.same(await until(lookup, ([count]) => count === 0), [0], 'not found with it yet')
  t.same(await brief('Signal 1 again'), [1])
  t.same(await lookup(), [1])
})

test('a rate card that has become prices for accounts is withheld where it was found before', async (t) => {
  const said = { scope: 'public' }
  const { over, configured, brief, lookup } = await startAsked(t, said)
  t.same(await until(brief, ([count]) => count === 1), [1])
  said.scope = 'account'
  t.same(await brief('Signal 1 again'), [1], 'which the operator shows')
  over.reload(configured('withheld'))
  t.same(await until(lookup, ([count]) => count === 0), [0])
})

test('what questions found under another account_prices is shown by the current one', async (t) => {
  const { over, configured, brief, lookup } = await startAsked(t)
  t.same(await until(brief, ([count]) => count === 1), [1])
  t.same(await lookup(), [1])
  over.reload(configured('withheld'))
  t.same(await until(lookup, ([count]) => count === 0), [0], 'by its reference')
  t.same(await brief(), [0], 'in answers that were kept')
  await over.restart(configured('withheld'))
  t.same(await until(lookup, ([count]) => count !== undefined), [0], 'and what was saved')
})

test('prices in the result of a task are for whom the question was asked', async (t) => {
  const agent = await startMcpAgent(
    (task, args) => {
      if (task === 'get_adcp_capabilities') {
        return { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['brief'] } }
      }
      const found = { signals: [row(1)], cache_scope: 'account' }
      if (task === 'get_task_status') {
        const { task_id } = args
        return { task_id, status: 'completed', ...(task_id === 'flat' ? found : { result: found }) }
      }
      if (task !== 'get_signals') return undefined
      if (args.discovery_mode === 'wholesale') {
        return { status: 'failed', adcp_error: { code: 'UNSUPPORTED_FEATURE', message: 'only briefs' } }
      }
      const isFlat = `${args.signal_spec}`.includes('flat')
      return { status: 'submitted', task_id: isFlat ? 'flat' : 'nested' }
    },
    {},
    ['get_signals', 'get_task_status', 'get_adcp_capabilities'].map((name) => ({
      ...{ name, inputSchema: { type: 'object' as const } },
    })),
  )
  t.teardown(() => agent.close())
  const configured = (account_prices: string) => ({
    upstreams: [{ id: 'personal', url: agent.url, account_prices }],
    defaults: { seeds_from_briefs: false },
  })
  const accounts = { gold: { [agent.url]: { account_id: 'acct_gold' } } }
  const over = await startOver(t, configured('withheld').upstreams, {
    defaults: { seeds_from_briefs: false },
    callers: {
      anonymous: 'metadata',
      keys: [{ id: 'buyer', token_sha256: hash('sha256', BUYER, 'hex'), accounts }],
    },
  })
  async function priced(question: string, more: object = {}): Promise<number[]> {
    const input = { adcp_version: '3.1', signal_spec: question, ...more }
    const { task_id } = await over.call('get_signals', input)
    const status = () => over.call('get_task_status', { task_id, include_result: true })
    const { result } = await until<Said>(status, (said) => said.status === 'completed')
    return result.signals.map(({ pricing_options = [] }: Said) => pricing_options.length)
  }
  t.same(await priced('Signal 1'), [0], 'of our credential, in the result')
  t.same(await priced('Signal 1, flat'), [0], 'beside the status')
  t.same(await priced('Signal 1', { account: { account_id: 'gold' } }), [1], 'of the account that asks')
  over.reload(configured('public'))
  t.same(
    await until(
      () => priced('Signal 1'),
      ([count]) => count === 1,
    ),
    [1],
    'where they are for all',
  )
  over.reload(configured('withheld'))
  const lookup = async () => {
    const { signal_ref } = row(1)
    const { signals = [] } = await over.call('get_signals', {
      adcp_version: '3.1',
      signal_refs: [signal_ref],
    })
    return signals.map(({ pricing_options = [] }: Said) => pricing_options.length)
  }
  t.same(await until(lookup, ([count]) => count === 0), [0], 'and no longer are')
})
