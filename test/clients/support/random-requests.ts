/** Requests of every task, made from its own request schema: mostly well formed, now and then with one thing wrong. */
import type { TSchema } from '@sinclair/typebox'
import fc from 'fast-check'
import type { Signal } from '../../support/federation.js'

type Node = {
  type?: string
  const?: unknown
  pattern?: string
  format?: string
  minimum?: number
  maximum?: number
  required?: string[]
  properties?: Record<string, Node>
  items?: Node
  anyOf?: Node[]
}

export type Input = Record<string, unknown>

/** What a client may have seen before. */
export type Seen = {
  rows: readonly Signal[]
  cursor: string
  feedVersion: string
  pricingVersion: string
  /** Ids; more may come while requests are made. */
  tasks: readonly string[]
}

/** Stands for a number that JSON may hold and a double may not. */
export const HUGE = '1e999 as a number'

const ODD = fc.constantFrom<unknown>(
  HUGE,
  null,
  '',
  0,
  -1,
  1.5,
  1e308,
  true,
  [],
  {},
  [null],
  'x',
  'ü\u0000\ud800',
  [[]],
)
const ANY = fc.oneof({ weight: 3, arbitrary: ODD }, fc.jsonValue({ maxDepth: 2 }))
const COUNTRY = fc.constantFrom('DE', 'US', 'JP', 'AU', 'ZZ')
const BRANDS = ['novamotors.example', 'acme.example', 'brand.example']
const WORDS = [
  'EV intenders in Germany',
  'coffee, CPM under 2 USD',
  'golf fans on DV360',
  'xyzzy',
  'コーヒー',
]
const INSTANTS = ['2026-01-01T00:00:00Z', '2026-02-01T00:00:00+02:00', '2030-12-31T23:59:59.999Z']
const PATTERNED = [
  'cars',
  'DE123456789',
  'USD',
  'JPY',
  'acme.example',
  '3.1',
  'abcdefghijklmnop',
  'https://acme.example/',
  'DE',
]

/** What stands under a name, whatever its schema would take too. */
function named(seen: Seen): Record<string, fc.Arbitrary<unknown>> {
  const row = fc.constantFrom(...seen.rows)
  const offers = seen.rows.flatMap(({ ext }) => ext.tributary.offers.map(({ handle }) => handle))
  const options = seen.rows.flatMap(({ pricing_options = [] }) => pricing_options)
  const refs = seen.rows.map(({ signal_ref }) => signal_ref)
  const places = [
    ...['the-trade-desk', 'dv360', 'nowhere'].map((platform) => ({ type: 'platform', platform })),
    { type: 'agent', agent_url: 'https://sales.example/mcp' },
  ]
  return {
    signal_agent_segment_id: fc.oneof(
      row.map(({ signal_agent_segment_id }) => signal_agent_segment_id),
      fc.constantFrom(...offers, 'nobody'),
    ),
    pricing_option_id: fc.constantFrom(...options.map(({ pricing_option_id }) => pricing_option_id), 'none'),
    signal_refs: fc.array(
      fc.constantFrom(...refs, {
        scope: 'data_provider',
        data_provider_domain: 'p.example',
        signal_id: 'none',
      }),
      { minLength: 1, maxLength: 5 },
    ),
    destinations: fc.array(fc.constantFrom(...places), { minLength: 1, maxLength: 3 }),
    countries: fc.array(COUNTRY, { minLength: 1, maxLength: 3 }),
    signal_spec: fc.constantFrom(...WORDS),
    cursor: fc.constantFrom(seen.cursor, 'forged', null),
    if_wholesale_feed_version: fc.constantFrom(seen.feedVersion, 'old'),
    if_pricing_version: fc.constantFrom(seen.pricingVersion, 'old'),
    account: fc.oneof(
      fc.constantFrom({ account_id: 'nobody' }, { account_id: 'demo-buyer' }),
      fc.record({
        brand: fc.record({ domain: fc.constantFrom(...BRANDS) }),
        operator: fc.constantFrom('agency.example', 'pinnacle-agency.example'),
        sandbox: fc.boolean(),
      }),
    ),
    billing_entity: fc.constantFrom<object>(
      {
        legal_name: 'Acme GmbH',
        vat_id: 'DE123456789',
        address: { street: '1', city: 'B', postal_code: '1', country: 'DE' },
      },
      {},
      { legal_name: 5 },
      { legal_name: 'Acme', vat_id: 'none', address: {} },
      { legal_name: 'Acme', contacts: [{ role: 'boss' }], colour: 'red' },
    ),
    payment_terms: fc.constantFrom('net_30', 'soon'),
    brand_id: fc.constantFrom('cars', 'Cars & more'),
    billing: fc.constantFrom('operator', 'agent', 'advertiser'),
    task_id: fc.nat().map((at) => seen.tasks[at % seen.tasks.length]),
    idempotency_key: fc.uuid(),
    context: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 }),
    time_budget: fc.constant({ interval: 1, unit: 'seconds' }),
    notification_configs: fc.array(
      fc.record(
        {
          subscriber_id: fc.constantFrom('a', 'b', ''),
          url: fc.constantFrom(
            'https://127.0.0.1:1/hook',
            'http://hooks.example',
            'ftp://x',
            'https://u:p@h/',
          ),
          event_types: fc.array(fc.constantFrom('signal.created', 'signal.create'), { maxLength: 2 }),
          active: fc.constant(false),
        },
        { requiredKeys: ['subscriber_id', 'url', 'event_types', 'active'] },
      ),
      { maxLength: 2 },
    ),
    push_notification_config: fc.constantFrom<object>(
      { url: 'https://127.0.0.1:1/hook', operation_id: 'o' },
      { url: 'nothing' },
    ),
  }
}

/** More of them at once would contradict each other more often than not. */
const MOST_OPTIONAL = 4
const NOT_SENT = new Set(['adcp_version', 'adcp_major_version', 'context_id'])

/** Values that a schema takes. */
function fitting(node: Node, names: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<unknown> {
  if (node.anyOf) return fc.oneof(...node.anyOf.map((branch) => fitting(branch, names)))
  if (node.const !== undefined) return fc.constant(node.const)
  const { type, minimum = 0, maximum = 200, properties = {}, required = [], items = {} } = node
  if (type === 'object') {
    const members = Object.entries(properties).flatMap(([name, one]) =>
      NOT_SENT.has(name) ? [] : [[name, member(name, one, names)] as const],
    )
    const free = Object.keys(properties).filter((name) => !required.includes(name))
    const chosen = fc.subarray(free, { maxLength: Math.min(free.length, MOST_OPTIONAL) })
    return chosen.chain((names) =>
      fc.record(
        Object.fromEntries(members.filter(([name]) => names.includes(name) || required.includes(name))),
      ),
    )
  }
  if (type === 'array') return fc.array(fitting(items, names), { minLength: 1, maxLength: 3 })
  if (type === 'boolean') return fc.boolean()
  if (type === 'integer') return fc.integer({ min: minimum, max: maximum })
  if (type === 'number') return fc.double({ min: minimum, max: maximum, noNaN: true })
  if (type === 'null') return fc.constant(null)
  if (node.format === 'date-time') return fc.constantFrom(...INSTANTS)
  if (node.pattern) {
    const taken = PATTERNED.filter((one) => new RegExp(node.pattern as string).test(one))
    if (taken.length > 0) return fc.constantFrom(...taken)
  }
  return fc.string({ minLength: 1, maxLength: 20 })
}

function member(name: string, node: Node, names: Record<string, fc.Arbitrary<unknown>>) {
  const known = Object.hasOwn(names, name) ? names[name] : undefined
  return fc.oneof({ weight: 40, arbitrary: known ?? fitting(node, names) }, { weight: 1, arbitrary: ANY })
}

const LOOKUPS = ['signal_spec', 'signal_refs', 'signal_ids']
const TOKENS = ['if_wholesale_feed_version', 'if_pricing_version']

const without = (input: Input, names: readonly string[]): Input =>
  Object.fromEntries(Object.entries(input).filter(([name]) => !names.includes(name)))

/** The same with its parts about one thing, so that more of them are answered. */
function fittedTogether(
  task: string,
  input: Input,
  { signal_agent_segment_id, deployments, pricing_options }: Signal,
): Input {
  if (task === 'activate_signal') {
    const [option] = pricing_options ?? []
    const [{ is_live: _, activation_key: __, ...place } = { is_live: false }] = deployments
    const destination = without(place as Input, ['estimated_activation_duration_minutes', 'deployed_at'])
    return {
      ...without(input, ['account', 'pricing_option_id']),
      ...{ signal_agent_segment_id, destinations: [destination] },
      ...(option && { pricing_option_id: option.pricing_option_id }),
    }
  }
  if (input.discovery_mode === 'wholesale')
    return without(input, [...LOOKUPS, 'account', 'if_pricing_version'])
  return without(input, [...TOKENS, 'account'])
}

/** Inputs of the task with this request schema. */
export function requestsOf(task: string, schema: TSchema, seen: Seen): fc.Arbitrary<Input> {
  const inputs = fitting(schema as Node, named(seen)) as fc.Arbitrary<Input>
  return fc
    .tuple(inputs, fc.constantFrom(...seen.rows), fc.boolean())
    .map(([input, row, isFitted]) => (isFitted ? fittedTogether(task, input, row) : input))
}
