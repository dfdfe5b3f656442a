/** Random small worlds for property tests: few names, so that everything collides with everything. */
import fc from 'fast-check'
import type { Judge, ProviderView, Verdict } from '../../src/authz/rules/verdict.js'
import type { Listing, Slice } from '../../src/upstreams/rows/slice.js'
import { AUTHORIZED, agentUrl, judgeThat, listing, sliceOf, UNAUTHORIZED, UNVERIFIABLE } from './world.js'

const UPSTREAMS = ['alpha', 'beta', 'gamma'] as const
export const DOMAINS = ['one.example', 'two.example'] as const
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })
const some = <T>(...values: T[]) => fc.subarray(values, { minLength: 1 })

/** Without members that are undefined, as JSON would have it. */
function plain<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T
}

const deployment = fc
  .record({
    target: fc.constantFrom(
      { type: 'platform', platform: 'the-trade-desk' } as const,
      { type: 'platform', platform: 'dv360' } as const,
      { type: 'agent', agent_url: 'https://SALES.example' } as const,
      { type: 'agent', agent_url: 'https://sales.example/' } as const,
    ),
    account: maybe(fc.constantFrom('acc1', 'acc2')),
    is_live: fc.boolean(),
    key: maybe(fc.constantFrom('k1', 'k2')),
    estimate: maybe(fc.constantFrom(0, 5, 60)),
  })
  .map(({ target, account, is_live, key, estimate }) => ({
    ...target,
    account,
    is_live,
    activation_key: key === undefined ? undefined : { type: 'segment_id' as const, segment_id: key },
    estimated_activation_duration_minutes: estimate,
  }))

const pricing = fc.oneof(
  fc.record({ id: fc.constantFrom('p', 'q'), cpm: fc.constantFrom(0, 1, 2.5, 9) }).map(({ id, cpm }) => ({
    pricing_option_id: id,
    model: 'cpm' as const,
    cpm,
    currency: 'USD',
  })),
  fc.record({ id: fc.constantFrom('p', 'r'), percent: fc.constantFrom(5, 20) }).map(({ id, percent }) => ({
    pricing_option_id: id,
    model: 'percent_of_media' as const,
    percent,
    max_cpm: 4,
    currency: 'EUR',
  })),
)

/** A listing of signal `id`, of a provider or the upstream's own. */
export const anyListing: fc.Arbitrary<Listing> = fc
  .record({
    id: fc.constantFrom('s1', 's2', 's3', 's4', 's5', 's6'),
    kind: fc.constantFrom('provider', 'provider', 'provider', 'source', 'native', 'product'),
    domain: fc.constantFrom(...DOMAINS),
    name: fc.constantFrom('A', 'B'),
    signal_type: fc.constantFrom('marketplace', 'owned', 'custom'),
    data_provider: maybe(fc.constantFrom('One Inc', 'Two Inc')),
    coverage_percentage: maybe(fc.constantFrom(0, 10, 80)),
    countries: maybe(some('DE', 'FR', 'US')),
    consent_basis: maybe(some('consent', 'contract')),
    restricted_attributes: maybe(some('age', 'health_data', 'shoe_size')),
    deployments: fc.array(deployment, { maxLength: 3 }),
    pricing_options: maybe(fc.array(pricing, { minLength: 1, maxLength: 3 })),
  })
  .map(({ id, kind, domain, ...more }) => {
    const row = listing(id, more as Partial<Listing>, domain)
    if (kind === 'source') {
      row.signal_ref = { scope: 'signal_source', signal_source_url: agentUrl('alpha'), signal_id: id }
    }
    if (kind === 'product') row.signal_ref = { scope: 'product', signal_id: id }
    if (kind === 'native') delete row.signal_ref
    return plain(row)
  })

export type World = { slices: Slice[]; judge: Judge }

const verdict: fc.Arbitrary<Verdict> = fc.constantFrom(
  AUTHORIZED,
  AUTHORIZED,
  { outcome: 'authorized', entries: [1], countries: ['DE', 'US'] } as const,
  UNAUTHORIZED,
  UNVERIFIABLE,
)

const definition: fc.Arbitrary<ReturnType<ProviderView['definition']>> = fc.option(
  fc
    .record({
      name: maybe(fc.constant('Defined')),
      consent_basis: maybe(some('consent')),
      countries: maybe(some('DE', 'FR')),
      policy_categories: maybe(some('health', 'finance')),
    })
    .map(plain),
  { nil: undefined },
)

/** What providers say: a verdict for each upstream, a definition and a policy for each domain. */
export const anyJudge: fc.Arbitrary<Judge> = fc
  .array(
    fc.record({
      verdicts: fc.array(verdict, { minLength: 3, maxLength: 3 }),
      definition,
      policy: fc.constantFrom('strict', 'strict', 'lenient', 'observe'),
    }),
    { minLength: DOMAINS.length, maxLength: DOMAINS.length },
  )
  .map((said) =>
    judgeThat((domain) => {
      const own = said[DOMAINS.indexOf(domain as (typeof DOMAINS)[number])]
      if (!own) return {}
      return {
        stamp: JSON.stringify(own),
        policy: own.policy,
        decide: (_, url) =>
          own.verdicts[UPSTREAMS.findIndex((upstream) => agentUrl(upstream) === url)] ?? UNAUTHORIZED,
        definition: () => own.definition,
      }
    }),
  )

export const anyRows = fc.array(anyListing, { maxLength: 8 })

export const anySlices: fc.Arbitrary<Slice[]> = fc
  .array(maybe(anyRows), { minLength: 3, maxLength: 3 })
  .map((all) => all.flatMap((rows, at) => (rows ? [sliceOf(UPSTREAMS[at] as string, rows)] : [])))

export const anyWorld: fc.Arbitrary<World> = fc.record({ slices: anySlices, judge: anyJudge })
