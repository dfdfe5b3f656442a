/** What was activated for an account is switched off, whatever has become of the account in the configuration. */
import { hash, randomUUID } from 'node:crypto'
import { type Test, test } from 'tap'
import { BUYER, type Said, startOver, TRADE_DESK } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

type Fields = Record<string, unknown>

const TOOLS = ['get_signals', 'activate_signal', 'get_adcp_capabilities'].map((name) => ({
  ...{ name, inputSchema: { type: 'object' as const } },
}))

const withAccounts = (accounts: object) => ({
  callers: {
    anonymous: 'metadata',
    keys: [{ id: 'buyer', token_sha256: hash('sha256', BUYER, 'hex'), destinations: [TRADE_DESK], accounts }],
  },
})

const at = (account_id: string) => ({ north: { account_id } })

/** An agent with books by account, and a buyer with these accounts there. */
async function startBooks(t: Test, accounts: object) {
  const on = new Set<string>()
  const agent = await startMcpAgent(
    (task, { account, destinations, action }) => {
      if (task === 'get_adcp_capabilities') return CAPABILITIES
      if (task === 'get_signals') return { status: 'completed', cache_scope: 'public', signals: [row(1)] }
      const name = String((account as Fields | undefined)?.account_id)
      if (action === 'deactivate') on.delete(name)
      else on.add(name)
      const is_live = on.has(name)
      return { deployments: (destinations as Fields[]).map((one) => ({ ...one, is_live })) }
    },
    {},
    TOOLS,
  )
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'north', url: agent.url, protocol: 'mcp' }], withAccounts(accounts))
  const [signal] = (await over.wholesale()).signals
  const request = (more: object) => ({
    ...{ idempotency_key: `key-${randomUUID()}`, destinations: [TRADE_DESK] },
    ...{ signal_agent_segment_id: signal.signal_agent_segment_id, ...more },
  })
  const { pricing_option_id } = signal.pricing_options[0]
  return {
    over,
    on: () => [...on].sort(),
    activate: (account_id: string) =>
      over.call('activate_signal', request({ account: { account_id }, pricing_option_id })),
    deactivate: (more: object = {}): Promise<Said> =>
      over.call('activate_signal', request({ action: 'deactivate', ...more })),
  }
}

test('a deactivation that names no account ends the one activation that there is', async (t) => {
  const { over, activate, deactivate, on } = await startBooks(t, { one: at('theirs') })
  t.match(await activate('one'), { status: 'completed' })
  t.same(on(), ['theirs'])
  t.match(await deactivate(), { deployments: [{ is_live: false }] })
  t.same(on(), [])
  const [off] = await (await over.stored()).ledger.query({ action: 'deactivate' }, 1)
  t.match(off, { account: '{"account_id":"one"}', upstreamAccount: { account_id: 'theirs' } })
})

test('a deactivation goes to the account that the upstream knew, when the configuration names another', async (t) => {
  const { over, activate, deactivate, on } = await startBooks(t, { one: at('theirs') })
  t.match(await activate('one'), { status: 'completed' })
  await over.reload(withAccounts({ one: at('another') }))
  t.match(await deactivate({ account: { account_id: 'one' } }), { status: 'completed' })
  t.same(on(), [])
})

test('what was activated for accounts that are gone can be switched off, by the choices that are told', async (t) => {
  const { over, activate, deactivate, on } = await startBooks(t, { one: at('first'), two: at('second') })
  await activate('one')
  await activate('two')
  t.same(on(), ['first', 'second'])
  await over.reload(withAccounts({}))
  const { choices } = (await deactivate()).adcp_error.details
  t.equal(choices.length, 2)
  for (const { idempotency_key: _, ...choice } of choices)
    t.match(await deactivate(choice), { status: 'completed' })
  t.same(on(), [])
  const never = { account: { account_id: 'three' } }
  t.match(await deactivate(never), { adcp_error: { code: 'ACCOUNT_NOT_FOUND' } })
})
