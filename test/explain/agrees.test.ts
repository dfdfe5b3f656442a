/** Explain against the feed over random worlds: what it says is there is there, and what it says leaves it out does. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import type { PricingOption } from '../../src/adcp/signal.js'
import type { Policy, Verdict } from '../../src/authz/rules/verdict.js'
import { createDepartures, createFormerUpstreams } from '../../src/explain/absence.js'
import { createExplainer, type Explanation } from '../../src/explain/explain.js'
import { contributionsOf } from '../../src/explain/upstream.js'
import type { Reader, Selection } from '../../src/feed/query.js'
import { drained } from '../../src/process/portions.js'
import { emptyFeed, publish } from '../feed/feed-of.js'
import { rowsOf, walk } from '../feed/reader.js'
import {
  AUTHORIZED,
  agentUrl,
  anonymous,
  buyer,
  judgeThat,
  listing,
  sliceOf,
  UNAUTHORIZED,
  UNVERIFIABLE,
} from '../feed/world.js'
import { proven } from '../support/proven.js'

const SIGNALS = ['s1', 's2'] as const
const SELLERS = ['seller0', 'seller1', 'seller2'] as const
const DESK = { type: 'platform', platform: 'the-trade-desk' } as const
const maybe = <T>(...values: T[]) => fc.option(fc.constantFrom(...values), { nil: undefined })

const anyOffer = (id: string) =>
  fc.option(
    fc
      .record({
        countries: maybe(['DE'], ['US'], ['DE', 'US'], ['FR']),
        platform: maybe('dv360', 'the-trade-desk'),
        is_live: fc.boolean(),
        cpm: maybe(0, 1, 3, 30),
        coverage: maybe(5, 60),
      })
      .map(({ countries, platform, is_live, cpm, coverage }) => {
        const option = { pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' } as PricingOption
        const key = { activation_key: { type: 'segment_id' as const, segment_id: 'KEY' } }
        return listing(id, {
          ...(countries && { countries }),
          coverage_percentage: coverage,
          deployments: platform ? [{ type: 'platform', platform, is_live, ...(is_live && key) }] : [],
          pricing_options: cpm === undefined ? [] : [option],
          signal_type: id === 's1' ? 'marketplace' : 'owned',
        } as object)
      }),
  )

const verdict = fc.constantFrom<Verdict>(
  AUTHORIZED,
  AUTHORIZED,
  { outcome: 'authorized', entries: [0], countries: ['DE'] },
  UNAUTHORIZED,
  UNVERIFIABLE,
)

const anyWorld = fc.record({
  offers: fc.tuple(...SELLERS.map(() => fc.tuple(...SIGNALS.map(anyOffer)))),
  verdicts: fc.tuple(...SELLERS.map(() => fc.tuple(...SIGNALS.map(() => verdict)))),
  policy: fc.constantFrom<Policy>('strict', 'lenient', 'observe'),
})

const anyCriteria = fc
  .record({
    countries: maybe(['DE'], ['US'], ['FR'], ['DE', 'FR']),
    destinations: maybe([DESK], [{ type: 'platform', platform: 'dv360' } as const]),
    max_cpm: maybe(0, 2, 10),
    min_coverage_percentage: maybe(20),
    catalog_types: maybe(['owned'], ['marketplace']),
  })
  .map(({ countries, destinations, ...filters }): Selection => {
    const said = Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined))
    return {
      ...(countries && { countries }),
      ...(destinations && { destinations }),
      ...(Object.keys(said).length > 0 && { filters: said }),
    }
  })

type World = {
  offers: readonly (readonly (object | null)[])[]
  verdicts: readonly (readonly Verdict[])[]
  policy: Policy
}

function startOver({ offers, verdicts, policy }: World) {
  const slices = offers.map((rows, at) =>
    sliceOf(SELLERS[at] as string, rows.filter((row) => row !== null) as ReturnType<typeof listing>[]),
  )
  const judge = judgeThat({
    policy,
    decide: (id, url) =>
      verdicts[SELLERS.findIndex((one) => agentUrl(one) === url)]?.[SIGNALS.indexOf(id as 's1')] as Verdict,
  })
  const feed = emptyFeed()
  const snapshot = publish(feed, slices, { judge })
  const entries = SELLERS.map((id) => ({
    id,
    agentUrl: agentUrl(id),
    url: agentUrl(id),
    name: id,
    source: 'static',
    auth: { type: 'none' as const },
  }))
  const roster = { entries, excluded: [] } as never
  const { explain } = createExplainer({
    feed,
    publishedAt: () => 1,
    judge: () => judge,
    provider: () => ({ domain: 'provider.example', version: '', deadline: 0 }) as never,
    providerState: (domain) => ({ domain }) as never,
    departures: createDepartures(),
    former: createFormerUpstreams(),
    callers: () => ({
      anonymous: 'metadata',
      keys: [{ id: 'buyer', role: 'buyer', destinations: [DESK], accounts: {}, credentials: {} }],
    }),
    suspended: () => new Set(),
    now: () => 1,
    roster: () => roster,
    statuses: () => SELLERS.map((id) => ({ id, state: 'fresh', listings: 2, dropped: {} })) as never,
    accountStatuses: () => [],
    slices: () => slices,
    contributions: async () => drained(contributionsOf(snapshot, judge)),
  })
  return { feed, slices, explain }
}

const READERS = { buyer: { ...buyer, grants: [DESK] }, anonymous: { ...anonymous, caller: 'anonymous' } }

test('explain agrees with the feed', async (t) => {
  await proven(
    t,
    40,
    fc.asyncProperty(
      anyWorld,
      anyCriteria,
      fc.constantFrom('buyer', 'anonymous'),
      async (world, selection, caller) => {
        const { feed, explain } = startOver(world as World)
        const shown = (asked: Selection, more: Pick<Reader, 'wholeOnly'> = {}) =>
          new Map(
            walk(feed, asked, { ...READERS[caller as 'buyer'], ...more })
              .flatMap(rowsOf)
              .map((row) => [row.signal_ref.signal_id, row]),
          )
        const told = async (ref: string, asked: Selection): Promise<Explanation> => {
          const answer = await explain({ ref, caller, ...asked })
          assert.equal(answer.kind, 'explained')
          return (answer as { explanation: Explanation }).explanation
        }
        const rows = shown(selection)
        const whole = shown({})
        const of30 = caller === 'anonymous' ? new Map() : shown(selection, { wholeOnly: true }) // anonymous ones are refused
        for (const [place, id] of SIGNALS.entries()) {
          const explained = await told(`provider.example/${id}`, selection)
          const { reason, detail, view, signal } = explained
          const what = `${id}: ${JSON.stringify({ reason, detail, filtered: view?.filtered_by, prices: view?.prices, keys: view?.activation_keys })}`
          const row = rows.get(id)
          assert.equal(reason === 'present', row !== undefined, what)
          assert.equal(reason === 'present' || reason === 'filtered_out', whole.has(id), what)
          if (view) assert.equal(view.in_3_0, of30.has(id), what)
          for (const name of view?.filtered_by ?? []) {
            const { countries, destinations, filters = {} } = selection
            const [, filter] = name.split('.')
            const alone = {
              ...(countries && { countries }),
              ...(name === 'destinations' && destinations && { destinations }),
              ...(filter && { filters: { [filter]: filters[filter] } }),
            }
            assert.ok(!shown(alone).has(id), `${what}: ${name} does not leave it out`)
          }
          if (row && view) {
            assert.equal(
              view.prices === 'shown',
              (row.pricing_options ?? []).length > 0,
              `${what} ${JSON.stringify(row.pricing_options)}`,
            )
            const keysTold = view.activation_keys
              .filter((one) => one.shown)
              .map((one) => one.destination)
              .sort()
            const keysShown = row.deployments
              .filter((one) => one.activation_key)
              .map((one) => `platform:${one.platform}`)
              .sort()
            assert.deepEqual(keysTold, keysShown, what)
          }
          for (const [at, seller] of SELLERS.entries()) {
            if (!world.offers[at]?.[place]) continue
            const handle = signal?.offers.find((one) => one.upstream === seller)?.handle ?? ''
            const one = await told(handle, selection)
            const isThere = row?.ext.tributary.offers.some((offer) => offer.handle === handle) === true
            const price = row?.pricing_options?.find(({ pricing_option_id: id }) =>
              id.startsWith(`${handle}.`),
            )
            if (price) assert.equal((await told(price.pricing_option_id, selection)).reason, 'present', what)
            assert.notEqual((await told(`${handle}.0000000000`, selection)).reason, 'present', what)
            assert.equal(
              one.reason === 'present',
              isThere,
              `${seller} of ${what}: ${one.reason} ${one.detail}`,
            )
          }
        }
      },
    ),
  )
})
