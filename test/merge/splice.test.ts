/**
 * A signal put together from its only listing's text is in every part what merging the parsed listing gives, whatever
 * strangers wrote into it and however they spelled it.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import type { Policy, Verdict } from '../../src/authz/rules/verdict.js'
import { type Definition, published } from '../../src/merge/definition.js'
import { type Identity, identityKey, signalHandle } from '../../src/merge/identity.js'
import { mergeSignal } from '../../src/merge/merged-signal.js'
import { spliceSignal } from '../../src/merge/splice.js'
import { wholeMemory } from '../../src/process/remembered.js'
import { readRow } from '../../src/upstreams/rows/listing.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { locateMembers, membersRoom } from '../../src/upstreams/rows/written.js'
import { AUTHORIZED, agentUrl, listing } from '../feed/world.js'
import { anyText } from '../support/any-text.js'
import { anyForecast } from '../support/forecasts.js'
import { hostileText } from '../support/hostile-text.js'
import { proven } from '../support/proven.js'

const plain = fc.constantFrom('Auto', '☃ {', '],', 'a:b', '日本,')
const word = fc.oneof(
  { weight: 40, arbitrary: plain },
  { weight: 1, arbitrary: hostileText },
  { weight: 1, arbitrary: fc.string({ minLength: 1, maxLength: 20 }) },
  { weight: 1, arbitrary: anyText({ minLength: 1, maxLength: 9 }) },
)
const some = (of: fc.Arbitrary<unknown>) => fc.array(of, { minLength: 1, maxLength: 3 })
const amount = fc.oneof(
  fc.constantFrom(0, -0, 1e21, 1e-7, 0.1),
  fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }),
)
const country = fc.constantFrom('DE', 'FR', 'US')

const deployment = fc.record(
  {
    type: fc.constant('platform'),
    platform: fc.oneof(fc.constantFrom('dv360', 'a#b', 'a%b'), word),
    is_live: fc.boolean(),
    account: word,
    activation_key: fc.record({ type: fc.constant('segment_id'), segment_id: word }),
    estimated_activation_duration_minutes: amount,
    deployed_at: fc.constantFrom('2026-01-01T00:00:00Z', '2026-01-01T00:00:00.5+02:00'),
  },
  { requiredKeys: ['type', 'platform', 'is_live'] },
)
const agent = fc.record({
  type: fc.constant('agent'),
  agent_url: fc.constantFrom(
    'https://Sales.example:443/mcp/',
    'https://sales.example/mcp',
    'no url',
    'http://[::1',
  ),
  is_live: fc.boolean(),
})
const id = fc.oneof(fc.constantFrom('po', '\u0041', 'u0000', '2'), word)
const price = fc.oneof(
  fc.record({
    pricing_option_id: id,
    model: fc.constant('cpm'),
    cpm: amount,
    currency: fc.constantFrom('USD', 'EUR'),
  }),
  fc.record({
    model: fc.constant('percent_of_media'),
    percent: fc.integer({ min: 0, max: 100 }),
    pricing_option_id: id,
    currency: fc.constant('USD'),
  }),
  fc.record({
    model: fc.constant('custom'),
    description: fc.constantFrom('', 'as agreed'),
    metadata: fc.constant({ 2: 1, 1: 'x' }),
    pricing_option_id: id,
  }),
)
const members = {
  signal_id: fc.constant({ source: 'catalog', data_provider_domain: 'provider.example', id: 's' }),
  signal_agent_segment_id: word,
  name: word,
  description: word,
  value_type: fc.constantFrom('binary', 'categorical'),
  categories: some(word),
  range: fc.constantFrom({ min: 1, max: 2 }, { max: 2, min: 1, unit: 'years' }, { min: 1.5, max: 1.5 }),
  signal_type: fc.constantFrom('owned', 'custom'),
  data_provider: fc.oneof(word, fc.constant('')),
  coverage_percentage: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.constantFrom(-0, 1e-7, 12.5)),
  coverage_forecast: fc.oneof(anyForecast, fc.constantFrom<unknown>('high', 1, [], {})),
  deployments: fc.array(fc.oneof(deployment, agent), { maxLength: 4 }),
  pricing_options: some(price),
  restricted_attributes: some(fc.constantFrom('age', 'health_data', 'a new word')),
  policy_categories: some(fc.constantFrom('b', 'a', 'b')),
  demographic_predicate: fc.constantFrom({ age: { min: 18, include_unknown: false } }, { age: {} }),
  taxonomy: fc.constantFrom(
    { ref: 'https://t.example/', values: [{ id: '1' }] },
    { ref: 'no url', values: [{ id: '1' }] },
  ),
  segmentation_criteria: word,
  methodology: fc.constantFrom('observed', 'guessed'),
  methodology_url: fc.constantFrom('https://m.example/ü', 'https://m.example/', 'x'),
  data_sources: some(fc.constantFrom('web_usage', 'hearsay')),
  audience_expansion: fc.boolean(),
  refresh_cadence: fc.constantFrom('daily', 'often'),
  countries: some(country),
  consent_basis: some(fc.constantFrom('consent', 'contract')),
  art9_basis: fc.constantFrom('explicit_consent', 'none'),
  last_updated: fc.constant('2026-01-01T00:00:00Z'),
}

const REFS: readonly Listing['signal_ref'][] = [
  { scope: 'data_provider', data_provider_domain: 'provider.example', signal_id: 's' },
  { scope: 'signal_source', signal_source_url: 'https://elsewhere.example/ü', signal_id: 's' },
  { scope: 'signal_source', signal_source_url: agentUrl('one'), signal_id: 's' },
]
const VERDICTS: readonly Verdict[] = [
  AUTHORIZED,
  { outcome: 'authorized', entries: [0], countries: ['US', 'FR'] },
  { outcome: 'not_applicable' },
  { outcome: 'unverifiable', reason: 'no_file' },
  { outcome: 'unauthorized', reason: 'agent_not_listed' },
]

/** The JSON of a value with its members in some order, and white space where JSON allows it. */
function spelled(value: unknown, order: number, space: string): string {
  if (Array.isArray(value)) return `[${value.map((one) => space + spelled(one, order, space)).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).map(
    ([name, held]) => `"${name}":${space}${spelled(held, order, space)}`,
  )
  return `{${[...entries.slice(order % entries.length), ...entries.slice(0, order % entries.length)].join(`,${space}`)}}`
}

const scene = fc.record({
  given: fc.record(members, { requiredKeys: [] }),
  ref: fc.constantFrom(...REFS),
  verdict: fc.constantFrom(...VERDICTS),
  policy: fc.constantFrom<Policy>('strict', 'lenient', 'observe'),
  mode: fc.constantFrom('wholesale' as const, 'enumerated' as const),
  definition: fc.option(
    fc.record({
      agreed: fc.subarray(Object.keys(members)),
      more: fc.record(members, { requiredKeys: [] }),
      isAlone: fc.constantFrom(true, true, false),
    }),
    { nil: undefined, freq: 2 },
  ),
  order: fc.nat({ max: 40 }),
  space: fc.constantFrom('', '', ' '),
})

function identityOf(ref: Listing['signal_ref'], url: string): Identity {
  return ref?.scope === 'data_provider'
    ? { kind: 'provider', domain: ref.data_provider_domain, id: ref.signal_id }
    : { kind: 'source', agentUrl: url, id: ref?.signal_id ?? '' }
}

const FINE_PRINT = [
  'restricted_attributes',
  'policy_categories',
  'demographic_predicate',
  'consent_basis',
  'art9_basis',
]
const DEFINING = ['name', 'description', ...Object.keys(published)]

/** A definition that says in some fields what the listing says, and in others what it likes. */
function definitionFrom(more: object, agreed: readonly string[], given: object): Definition {
  const told = Object.entries(given).filter(([field]) => agreed.includes(field))
  const own = Object.entries(more).filter(([field]) => !(field in given))
  return Object.fromEntries([...own, ...told].filter(([field]) => DEFINING.includes(field)))
}

const located = membersRoom()
const isLocated = (row: Buffer) =>
  locateMembers(located, wholeMemory(row), row.byteOffset, row.byteOffset + row.length)

test('a signal from the text of its only listing is what the parsed listing gives', (t) => {
  let spliced = 0
  let defined = 0
  let forecast = 0
  const property = fc.property(
    scene,
    ({ given, ref, verdict, policy, mode, definition: said, order, space }) => {
      const { signal_ref: _, ...rest }: Record<string, unknown> = { ...listing('s'), ...given }
      if (said?.isAlone) for (const field of FINE_PRINT) delete rest[field]
      const raw = `{"signal_ref":${JSON.stringify(ref)},${spelled(rest, order, space).slice(1)}`
      const read = readRow(Buffer.from(raw))
      if (read.kind === 'dropped') return
      const text = read.bytes.toString()
      const offer = { upstream: 'a "name"', agentUrl: agentUrl('one'), mode, verdict }
      const identity = identityOf(ref, offer.agentUrl)
      const definition = said && definitionFrom(said.more, said.agreed, rest)
      if (!isLocated(read.bytes)) return
      const handle = signalHandle(identityKey(identity))
      const selling = { ...offer, members: located, ref: ref as NonNullable<typeof ref>, handle }
      const signal = spliceSignal(identity, selling, policy, definition)
      if (!signal) return
      if (definition) defined += 1
      else spliced += 1
      if (signal.opening.includes('"coverage_forecast":')) forecast += 1
      const parsed = JSON.parse(text) as Listing
      const whole = { ...offer, listing: parsed, bytes: read.bytes.length }
      assert.deepEqual(signal, mergeSignal(identity, [whole], policy, definition))
    },
  )
  t.doesNotThrow(() => proven(t, 150, property))
  t.ok(spliced > 20 && defined > 10, `${spliced} were put together, and ${defined} that a provider defines`)
  t.ok(forecast > 5, `${forecast} of them with a forecast`)
  t.end()
})

test('an ordinary listing, in whatever language, is not parsed', (t) => {
  const ref = REFS[0] as NonNullable<Listing['signal_ref']>
  const offer = {
    upstream: 'one',
    agentUrl: agentUrl('one'),
    mode: 'wholesale' as const,
    verdict: AUTHORIZED,
  }
  for (const name of ['Auto', '車の購入者 — {早い}, "']) {
    t.ok(isLocated(Buffer.from(JSON.stringify(listing('s', { name: name.replace('"', '') })))))
    t.ok(spliceSignal(identityOf(ref, ''), { ...offer, members: located, ref, handle: 'sig_x' }, 'strict'))
  }
  t.notOk(isLocated(Buffer.from(JSON.stringify(listing('s', { name: 'a "name"' })))))
  t.end()
})
