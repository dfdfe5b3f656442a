/**
 * Sellers and providers that change from one moment to the next: signals move from seller to seller and back, feeds empty and fill,
 * prices keep their ids and become others, providers grant by id, by tag, in countries and for a time, and fall silent.
 */
import fc from 'fast-check'
import type { PricingOption } from '../../src/adcp/signal.js'
import { compileProvider } from '../../src/authz/rules/verdict.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { stateWith } from '../authz/compiled.js'
import { agentUrl, listing, sliceOf } from './world.js'

export const HOUR = 3_600_000
const DAY = 24 * HOUR
export const BEGIN = Date.parse('2026-03-01T00:00:00Z')
export const FILE_MS = 7 * DAY

export const SELLERS = ['one', 'two', 'three'] as const
export const DOMAINS = ['p.example', 'q.example'] as const
export const IDS = ['s1', 's2'] as const
/** The second and the third differ in how their last letter is written. */
const SEGMENTS = ['seg', 'caf\u00e9', 'cafe\u0301'] as const
const COUNTRIES = ['DE', 'FR', 'US']

type Seller = (typeof SELLERS)[number]
export type Domain = (typeof DOMAINS)[number]
type Offer = {
  domain: Domain
  id: string
  segment: string
  prices: readonly PricingOption[]
  platforms: readonly { platform: string; is_live: boolean; key: string }[]
  countries: readonly string[] | undefined
  consent: readonly string[] | undefined
}
type Definition = {
  id: string
  tags: readonly string[]
  countries: readonly string[] | undefined
  consent: readonly string[] | undefined
}
/** Hours since the beginning. */
export type Entry = {
  seller: Seller
  by: 'signal_ids' | 'signal_tags'
  names: readonly string[]
  countries: readonly string[] | undefined
  from: number | undefined
  until: number | undefined
}
type File = { signals: readonly Definition[]; entries: readonly Entry[] }
export type World = {
  now: number
  offers: Map<Seller, Map<string, Offer>>
  files: Map<Domain, { file: File | undefined; confirmedAt: number }>
}

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 1 })
const seldom = <T>(value: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value })
const seller = fc.constantFrom(...SELLERS)
const domain = fc.constantFrom(...DOMAINS)
const someCountries = seldom(fc.subarray(COUNTRIES, { minLength: 1 }))
const someConsent = maybe(fc.subarray(['consent', 'legitimate_interest'], { minLength: 1 }))

const price: fc.Arbitrary<PricingOption> = fc
  .record({
    id: fc.constantFrom('a', 'a', 'b'),
    model: fc.constantFrom('cpm', 'percent_of_media'),
    currency: fc.constantFrom('USD', 'EUR'),
    amount: fc.integer({ min: 1, max: 3 }),
  })
  .map(({ id, model, currency, amount }) => {
    const base = { pricing_option_id: id, currency }
    return (
      model === 'cpm' ? { ...base, model, cpm: amount } : { ...base, model, percent: amount }
    ) as PricingOption
  })
const prices = fc.uniqueArray(price, { maxLength: 2, selector: (one) => one.pricing_option_id })
const platforms = fc.uniqueArray(
  fc.record({
    platform: fc.constantFrom('the-trade-desk', 'dv360'),
    is_live: fc.boolean(),
    key: fc.constantFrom('k1', 'k2'),
  }),
  { maxLength: 2, selector: (one) => one.platform },
)
const offer: fc.Arbitrary<Offer> = fc.record({
  ...{ domain, id: fc.constantFrom(...IDS), segment: fc.constantFrom(...SEGMENTS) },
  ...{ prices, platforms, countries: someCountries, consent: someConsent },
})
const entry: fc.Arbitrary<Entry> = fc
  .record({
    ...{
      seller,
      by: fc.constantFrom('signal_ids' as const, 'signal_tags' as const),
      countries: someCountries,
    },
    ids: fc.subarray([...IDS], { minLength: 1 }),
    tags: fc.subarray(['t1', 't2'], { minLength: 1 }),
    from: seldom(fc.integer({ min: -24, max: 240 })),
    until: seldom(fc.integer({ min: 0, max: 300 })),
  })
  .map(({ ids, tags, ...rest }) => ({ ...rest, names: rest.by === 'signal_ids' ? ids : tags }))
const file: fc.Arbitrary<File> = fc.record({
  signals: fc.array(
    fc.record({
      id: fc.constantFrom(...IDS),
      tags: fc.subarray(['t1', 't2']),
      ...{ countries: someCountries, consent: someConsent },
    }),
    { minLength: 2, maxLength: 3 },
  ),
  entries: fc.array(entry, { minLength: 3, maxLength: 6 }),
})

export type Step = { name: string; do(world: World): void; isTimeAlone?: true }
export const held = (world: World, of: Seller) => world.offers.get(of) as Map<string, Offer>

/** A seller changes a part of an offer that it has. */
const changing = <Part extends 'prices' | 'platforms'>(part: Part, next: fc.Arbitrary<Offer[Part]>) =>
  fc.tuple(seller, fc.constantFrom(...SEGMENTS), next).map(([who, segment, value]) => ({
    name: `${who} changes the ${part} of ${segment} to ${JSON.stringify(value)}`,
    do(world: World) {
      const what = held(world, who).get(segment)
      if (what) held(world, who).set(segment, { ...what, [part]: value })
    },
  }))

/** One change at one moment. */
export const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.tuple(seller, offer).map(([who, what]) => ({
      name: `${who} offers ${JSON.stringify(what)}`,
      do: (world: World) => void held(world, who).set(what.segment, what),
    })),
  },
  fc.tuple(seller, seller, fc.constantFrom(...SEGMENTS)).map(([from, to, segment]) => ({
    name: `${segment} moves from ${from} to ${to}`,
    do(world: World) {
      const what = held(world, from).get(segment)
      if (!what) return
      held(world, from).delete(segment)
      held(world, to).set(segment, what)
    },
  })),
  { weight: 2, arbitrary: changing('prices', prices) },
  { weight: 2, arbitrary: changing('platforms', platforms) },
  seller.map((who) => ({ name: `${who} empties`, do: (world: World) => held(world, who).clear() })),
  {
    weight: 2,
    arbitrary: fc.tuple(domain, fc.option(file, { nil: undefined, freq: 5 })).map(([of, next]) => ({
      name: `${of} publishes ${JSON.stringify(next)}`,
      do: (world: World) => void world.files.set(of, { file: next, confirmedAt: world.now }),
    })),
  },
  domain.map((of) => ({
    name: `${of} confirms`,
    do(world: World) {
      const known = world.files.get(of)
      if (known && world.now < known.confirmedAt + FILE_MS) known.confirmedAt = world.now
    },
  })),
  {
    weight: 3,
    arbitrary: fc.integer({ min: 1, max: 60 }).map((hours) => ({
      ...{ name: `${hours} hours pass`, isTimeAlone: true as const },
      do(world: World) {
        world.now += hours * HOUR
      },
    })),
  },
)

export type Start = { offers: readonly (readonly Offer[])[]; files: readonly File[] }
/** What there is before the first step. */
export const start: fc.Arbitrary<Start> = fc.record({
  offers: fc.array(fc.array(offer, { minLength: 2, maxLength: 3 }), { minLength: 3, maxLength: 3 }),
  files: fc.array(file, { minLength: 2, maxLength: 2 }),
})

/** The world as it begins. */
export const worldOf = ({ offers, files }: Start): World => ({
  now: BEGIN,
  offers: new Map(SELLERS.map((who, n) => [who, new Map(offers[n]?.map((one) => [one.segment, one]))])),
  files: new Map(DOMAINS.map((of, n) => [of, { file: files[n], confirmedAt: BEGIN }])),
})

const at = (hours: number) => new Date(BEGIN + hours * HOUR).toISOString()

const documentOf = ({ signals, entries }: File) => ({
  signals: signals.map(({ id, tags, countries, consent }) => ({
    ...{ id, name: id, value_type: 'binary', tags },
    ...(countries && { countries }),
    ...(consent && { consent_basis: consent }),
  })),
  authorized_agents: entries.map(({ seller: who, by, names, countries, from, until }) => ({
    ...{ url: agentUrl(who), authorized_for: 'x', authorization_type: by, [by]: names },
    ...(countries && { countries }),
    ...(from !== undefined && { effective_from: at(from) }),
    ...(until !== undefined && { effective_until: at(until) }),
  })),
})

const listingOf = ({ domain: of, id, segment, prices: asked, platforms: on, countries, consent }: Offer) =>
  ({
    ...listing(id, {}, of),
    signal_agent_segment_id: segment,
    deployments: on.map(({ platform, is_live, key }) => ({
      ...{ type: 'platform', platform, is_live },
      ...(is_live && { activation_key: { type: 'segment_id', segment_id: key } }),
    })),
    pricing_options: asked,
    ...(countries && { countries }),
    ...(consent && { consent_basis: consent }),
  }) as Listing

/** What each seller lists. */
export const slicesOf = (world: World) =>
  SELLERS.map((who) => sliceOf(who, [...held(world, who).values()].map(listingOf)))

/** What is known of each provider. */
export const compiledOf = (world: World) =>
  new Map(
    DOMAINS.map((of) => {
      const known = world.files.get(of)
      const state = known?.file
        ? { ...stateWith(documentOf(known.file)), expiresAt: known.confirmedAt + FILE_MS }
        : {}
      return [of, compileProvider({ ...state, domain: of })] as const
    }),
  )
