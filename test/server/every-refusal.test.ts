/**
 * Every refusal that is written by hand, over HTTP: each names the field, says what was expected and what to send instead.
 * The rules of the request schemas are walked in test/adcp/every-rule.test.ts; the type of `adcpError` keeps new ones to this.
 */
import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { startWorld } from '../support/federation.js'
import { lackOf } from '../support/refusal.js'

type Refused = Parameters<typeof lackOf>[0] & { details?: { choices?: object[]; scope?: string } }
type Row = { status?: string; errors?: Refused[] }

const brand = { domain: 'acme.example' }
const operator = 'agency.example'
const mine = { brand, operator }
const period = { start: '2026-01-01T00:00:00Z', end: '2026-02-01T00:00:00Z' }
const hook = { subscriber_id: 'mirror', url: 'https://hooks.example/x', event_types: ['signal.created'] }
const key = () => randomUUID()

test('every refusal written by hand helps', async (t) => {
  const world = await startWorld({ signals: 48 })
  t.teardown(() => world.close())
  const call = async (task: string, input: object) =>
    (await world.call(task, input)) as { adcp_error?: Refused; accounts?: Row[]; errors?: Refused[] }

  const rows = (await world.wholesale({ pagination: { max_results: 100 } })).signals ?? []
  const sold = rows.find(({ pricing_options: options = [] }) => options.length > 0)
  if (!sold) throw new Error('The demo world sells nothing')
  const handle = sold.signal_agent_segment_id
  const option = sold.pricing_options?.[0]?.pricing_option_id
  const several = rows.find(
    ({ pricing_options: options = [], ext }) => options.length > 1 && ext.tributary.offers.length > 1,
  )
  if (!several) throw new Error('The demo world has no signal of two sellers')
  const elsewhere = [{ type: 'platform', platform: 'no-such-place' }]
  const desk = [{ type: 'platform', platform: 'the-trade-desk' }]
  const activation = { idempotency_key: key(), signal_agent_segment_id: handle, destinations: desk }
  const usage = { account: mine, vendor_cost: 1, currency: 'USD' }
  const report = { reporting_period: period, usage: [usage] }

  const refused: [string, string, object, string, RegExp?][] = [
    [
      'a walk that nobody began',
      'get_signals',
      { discovery_mode: 'wholesale', pagination: { cursor: 'x' } },
      'pagination.cursor',
    ],
    ['a page of tasks', 'list_tasks', { pagination: { cursor: 'x' } }, 'pagination.cursor'],
    [
      'tasks of a mistyped type',
      'list_tasks',
      { filters: { task_type: 'get_signal' } },
      'filters.task_type',
      /"get_signals"/,
    ],
    ['tasks of no type', 'list_tasks', { filters: { task_types: ['zzz'] } }, 'filters.task_types[0]'],
    ['tasks of no protocol', 'list_tasks', { filters: { protocol: 'x' } }, 'filters.protocol'],
    [
      'a webhook without a url',
      'sync_accounts',
      { idempotency_key: key(), accounts: [], push_notification_config: {} },
      'push_notification_config.url',
    ],
    ['an offset into tasks', 'list_tasks', { pagination: { offset: 1 } }, 'pagination.offset'],
    ['an offset into accounts', 'list_accounts', { pagination: { offset: 1 } }, 'pagination.offset'],
    ['a page of accounts', 'list_accounts', { pagination: { cursor: 'x' } }, 'pagination.cursor'],
    ['a status of no account', 'list_accounts', { status: 'activ' }, 'status', /"active"/],
    ['an account of nobody', 'get_signals', { signal_spec: 'cars', account: { account_id: 'x' } }, 'account'],
    [
      'an activation for it',
      'activate_signal',
      { ...activation, pricing_option_id: option, account: { account_id: 'x' } },
      'account',
    ],
    ['a task of nobody', 'get_task_status', { task_id: 'x' }, 'task_id'],
    [
      'a handle of nothing',
      'activate_signal',
      { ...activation, signal_agent_segment_id: 'x' },
      'signal_agent_segment_id',
    ],
    ['a price of nothing', 'activate_signal', { ...activation, pricing_option_id: 'x' }, 'pricing_option_id'],
    ['no price chosen', 'activate_signal', activation, 'pricing_option_id', /details\.choices/],
    [
      'a place that nobody serves',
      'activate_signal',
      { ...activation, pricing_option_id: option, destinations: elsewhere },
      'destinations[0]',
      /details\.choices/,
    ],
    [
      'nothing to switch off',
      'activate_signal',
      { ...activation, action: 'deactivate', destinations: elsewhere },
      'destinations',
    ],
    [
      'a period that runs backwards',
      'report_usage',
      { idempotency_key: key(), ...report, reporting_period: { start: period.end, end: period.start } },
      'reporting_period.start',
    ],
    ['another major', 'get_signals', { adcp_version: '4.0' }, 'adcp_version'],
    ['a prerelease', 'get_signals', { adcp_version: '3.1-beta.1' }, 'adcp_version'],
    ['two majors', 'get_signals', { adcp_version: '3.1', adcp_major_version: 4 }, 'adcp_major_version'],
    ['no such major', 'get_signals', { adcp_major_version: 2 }, 'adcp_major_version'],
    [
      'a hook with credentials in its url',
      'get_signals',
      {
        signal_spec: 'cars',
        push_notification_config: { url: 'https://u:p@hooks.example/', operation_id: 'o' },
      },
      'push_notification_config.url',
    ],
    [
      'a lower-case country',
      'get_signals',
      { signal_spec: 'cars', countries: ['de'] },
      'countries[0]',
      /"DE"/,
    ],
    [
      'a country by its name',
      'get_signals',
      { signal_spec: 'cars', countries: ['Germany'] },
      'countries[0]',
      /"DE"/,
    ],
  ]
  for (const [name, task, input, field, suggests = /./] of refused) {
    const { adcp_error: error } = await call(task, input)
    t.match(error, { field, suggestion: suggests }, name)
    t.equal(error && lackOf(error), undefined, name)
  }

  const usageRows: [string, object, string][] = [
    ['usage of no signal', usage, 'usage[0].signal_agent_segment_id'],
    ['usage of nothing', { ...usage, signal_agent_segment_id: 'x' }, 'usage[0].signal_agent_segment_id'],
    [
      'usage for an account of nobody',
      { ...usage, signal_agent_segment_id: handle, account: { account_id: 'x' } },
      'usage[0].account',
    ],
    [
      'usage that several sold',
      { ...usage, signal_agent_segment_id: several.signal_agent_segment_id },
      'usage[0].pricing_option_id',
    ],
  ]
  for (const [name, row, field] of usageRows) {
    const { errors: [error] = [] } = await call('report_usage', {
      idempotency_key: key(),
      reporting_period: period,
      usage: [row],
    })
    t.match(error, { field }, name)
    t.equal(error && lackOf(error), undefined, name)
  }

  const declared = { ...mine, billing: 'operator' }
  const subscribed = (...notification_configs: object[]) => ({ ...declared, notification_configs })
  const entries: [string, object, string, RegExp?][] = [
    ['both forms at once', { ...declared, account: { account_id: 'x' } }, 'brand'],
    ['settings of nobody', { account: { account_id: 'x' } }, 'account'],
    ['no billing', { brand, operator }, 'billing', /Send billing/],
    ['a billing of nobody', { ...declared, billing: 'operater' }, 'billing', /"operator"/],
    [
      'a subscription without a name',
      subscribed({ ...hook, subscriber_id: '' }),
      'notification_configs[0].subscriber_id',
    ],
    [
      'two of one name',
      subscribed({ ...hook, active: false }, { ...hook, active: false }),
      'notification_configs[1].subscriber_id',
    ],
    [
      'a hook without TLS',
      subscribed({ ...hook, url: 'http://hooks.example' }),
      'notification_configs[0].url',
    ],
    ['no event', subscribed({ ...hook, event_types: [] }), 'notification_configs[0].event_types'],
    [
      'a mistyped event',
      subscribed({ ...hook, event_types: ['signal.create'] }),
      'notification_configs[0].event_types[0]',
      /"signal\.created"/,
    ],
    [
      'an event twice',
      subscribed({ ...hook, event_types: ['signal.created', 'signal.created'] }),
      'notification_configs[0].event_types',
    ],
    [
      'a short secret',
      subscribed({ ...hook, authentication: { schemes: ['Bearer'], credentials: 'x' } }),
      'notification_configs[0].authentication',
    ],
    ['active as a word', subscribed({ ...hook, active: 'yes' }), 'notification_configs[0].active'],
    [
      'a mistyped member',
      subscribed({ ...hook, active: false, even_types: [] }),
      'notification_configs[0]',
      /"event_types"/,
    ],
  ]
  for (const [name, entry, field, suggests = /./] of entries) {
    const { accounts: [row] = [] } = await call('sync_accounts', {
      idempotency_key: key(),
      accounts: [entry],
    })
    const error = row?.errors?.[0]
    t.match(error, { field, suggestion: suggests }, name)
    t.equal(error && lackOf(error), undefined, name)
  }

  // All that is wrong is told at once, of an account's subscriptions and of a task's webhook.
  const bad = {
    ...hook,
    url: 'http://hooks.example',
    event_types: ['signal.create', 'product.made'],
    active: 'yes',
  }
  const { accounts: [rejected] = [] } = await call('sync_accounts', {
    idempotency_key: key(),
    accounts: [
      subscribed({ ...bad, subscriber_id: 'first one' }, { ...hook, authentication: {}, active: false }),
    ],
  })
  t.same(
    rejected?.errors?.map(({ field }) => field),
    [
      'notification_configs[0].subscriber_id',
      'notification_configs[0].url',
      'notification_configs[0].event_types[0]',
      'notification_configs[0].event_types[1]',
      'notification_configs[0].active',
      'notification_configs[1].authentication',
      'notification_configs[1].authentication',
    ],
  )
  const { adcp_error: pushed } = await call('get_signals', {
    signal_spec: 'cars',
    push_notification_config: { url: 'https://u:p@127.0.0.1/', operation_id: 'o', token: 'short' },
  })
  t.same(
    pushed?.issues?.map(({ pointer }) => pointer),
    ['token', 'url', 'url', 'authentication'].map((name) => `/push_notification_config/${name}`),
  )

  const used = { idempotency_key: key(), accounts: [declared] }
  await call('sync_accounts', used)
  const { adcp_error: conflict } = await call('sync_accounts', { ...used, accounts: [] })
  t.equal(conflict?.code, 'IDEMPOTENCY_CONFLICT')
  t.same(
    Object.keys(conflict ?? {}).sort(),
    ['code', 'message', 'recovery'],
    'and nothing of the first request',
  )
  t.equal(conflict && lackOf(conflict), undefined)

  const warned: [string, object, string, RegExp][] = [
    [
      'a mistyped platform beside a right one',
      { destinations: [...desk, { type: 'platform', platform: 'trade-desk' }] },
      'destinations[1].platform',
      /"the-trade-desk"/,
    ],
    [
      'a mistyped provider beside a right one',
      { filters: { data_providers: ['motorledger.example', 'motorleger.example'] } },
      'filters.data_providers[1]',
      /"motorledger\.example"/,
    ],
    ['a code that no country has', { countries: ['DE', 'UK'] }, 'countries[1]', /"GB"/],
  ]
  for (const [name, selection, field, suggests] of warned) {
    for (const mode of [{ discovery_mode: 'wholesale' }, { signal_spec: 'cars' }]) {
      const { errors = [] } = await call('get_signals', { ...mode, ...selection })
      t.match(errors, [{ field, suggestion: suggests, severity: 'warning' }], name)
    }
  }

  await t.test('a name that no tool and no skill has', async (t) => {
    const post = async (path: string, method: string, params: object, version: Record<string, string>) => {
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...version,
      }
      const authorization = 'Bearer demo-buyer-key'
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
      return await (
        await fetch(world.federation.url + path, {
          method: 'POST',
          headers: { ...headers, authorization },
          body,
        })
      ).json()
    }
    const over = await post(
      '/mcp',
      'tools/call',
      { name: 'get_signal', arguments: {} },
      { 'mcp-protocol-version': '2025-06-18' },
    )
    t.match(over, { error: { code: -32_602, message: /"get_signals"/ } })
    const message = {
      messageId: 'm',
      role: 'ROLE_USER',
      parts: [{ data: { skill: 'get_signal', input: {} } }],
    }
    const { result } = (await post('/a2a', 'SendMessage', { message }, { 'a2a-version': '1.0' })) as {
      result: { task: { artifacts: [{ parts: [{ data: { adcp_error: Refused } }] }] } }
    }
    const error = result.task.artifacts[0].parts[0].data.adcp_error
    t.match(error, { field: 'skill', suggestion: /"get_signals"/ })
  })
})
