import fc from 'fast-check'
import { test } from 'tap'
import type { PricingOption } from '../../src/adcp/signal.js'
import { canonicalUrl } from '../../src/adcp/url.js'
import { compileProvider, judgeAt, type Policy } from '../../src/authz/rules/verdict.js'
import { mergeSignal } from '../../src/merge/merged-signal.js'
import type { Offer } from '../../src/merge/offer.js'
import { rowText } from '../merge/offers.js'
import { proven } from '../support/proven.js'
import { NOW, stateWith } from './compiled.js'

const AGENTS = [
  'https://a.example/mcp',
  'https://b.example/mcp',
  'https://c.example/mcp',
  'https://d.example/mcp',
]
const POLICIES: Policy[] = ['strict', 'lenient', 'observe']

const option: fc.Arbitrary<PricingOption> = fc.record({
  pricing_option_id: fc.constantFrom('default', 'x'),
  model: fc.constant('cpm' as const),
  cpm: fc.integer({ min: 0, max: 9 }),
  currency: fc.constantFrom('USD', 'EUR'),
})

const listing = fc.record(
  {
    signal_agent_segment_id: fc.constantFrom('seg1', 'seg2'),
    name: fc.constantFrom('Name', 'Another name'),
    description: fc.constantFrom('One', 'Two'),
    signal_type: fc.constantFrom('marketplace' as const, 'owned' as const),
    deployments: fc.array(
      fc.record({
        type: fc.constant('platform' as const),
        platform: fc.constantFrom('ttd', 'dv360'),
        is_live: fc.boolean(),
      }),
      { maxLength: 2 },
    ),
    pricing_options: fc.array(option, { minLength: 1, maxLength: 2 }),
    coverage_percentage: fc.integer({ min: 0, max: 100 }),
    countries: fc.subarray(['DE', 'FR', 'US'], { minLength: 1 }),
    consent_basis: fc.subarray(['consent', 'legitimate_interest'], { minLength: 1 }),
    restricted_attributes: fc.subarray(['age', 'health_data'], { minLength: 1 }),
  },
  { requiredKeys: ['signal_agent_segment_id', 'name', 'description', 'signal_type', 'deployments'] },
)

const offer = fc.record({ agentUrl: fc.constantFrom(...AGENTS), listing })

const entry = fc.record(
  {
    url: fc.constantFrom(...AGENTS, `${AGENTS[0]}/`),
    authorized_for: fc.constant('x'),
    authorization_type: fc.constantFrom('signal_ids', 'signal_tags', 'property_tags'),
    signal_ids: fc.constantFrom(['s1'], ['s2'], ['s1', 's2']),
    signal_tags: fc.constantFrom(['auto'], ['other']),
    effective_until: fc.constantFrom('2030-01-01T00:00:00Z', '2020-01-01T00:00:00Z'),
  },
  { requiredKeys: ['url', 'authorized_for', 'authorization_type', 'signal_ids', 'signal_tags'] },
)

const definition = {
  id: 's1',
  name: 'Provider name',
  value_type: 'binary',
  tags: ['auto'],
  consent_basis: ['contract'],
}
const signals = fc.constantFrom([definition], [{ id: 's1', tags: ['auto'] }], [])

test('an offer that is not authorized changes no byte of a signal that has an authorized one', async (t) => {
  let compared = 0
  proven(
    t,
    300,
    fc.property(
      signals,
      fc.array(entry, { maxLength: 5 }),
      fc.array(offer, { minLength: 1, maxLength: 6 }),
      fc.boolean(),
      (rows, entries, found, expired) => {
        const provider = compileProvider(stateWith({ signals: rows, authorized_agents: entries }))
        const now = expired ? NOW + 8 * 86_400_000 : NOW
        const view = judgeAt(
          new Map([['p.example', provider]]),
          { policy: 'strict', providers: {} },
          now,
        )('p.example')
        const offers = found.map(({ agentUrl, listing: row }): Offer => {
          const verdict = view.decide('s1', canonicalUrl(agentUrl) ?? '')
          const bytes = JSON.stringify(row).length
          return { upstream: agentUrl.slice(8, 9), agentUrl, mode: 'wholesale', listing: row, bytes, verdict }
        })
        const authorized = offers.filter(({ verdict }) => verdict.outcome === 'authorized')
        const identity = { kind: 'provider', domain: 'p.example', id: 's1' } as const
        for (const policy of POLICIES) {
          const merged = mergeSignal(identity, offers, policy, view.definition('s1'))
          if (authorized.length === 0) {
            if (policy === 'strict' && merged.kind === 'signal')
              throw new Error('published without authorization')
            continue
          }
          const alone = mergeSignal(identity, authorized, policy, view.definition('s1'))
          if (merged.kind === 'withheld' || alone.kind === 'withheld') {
            if (merged.kind !== alone.kind) throw new Error('withheld or not')
            continue
          }
          if (authorized.length < offers.length) compared += 1
          if (rowText(merged) !== rowText(alone)) throw new Error(rowText(merged))
        }
      },
    ),
  )
  t.ok(compared > 30, `${compared} signals with offers of both kinds`)
})
