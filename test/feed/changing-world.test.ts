/**
 * Sellers and providers that change from one moment to the next: signals move from seller to seller and back, feeds empty and fill,
 * prices keep their ids and become others, providers grant by id, by tag, in countries and for a time, and fall silent. After each
 * step the feed is what a straightforward reading of what there is gives, and it keeps its own promises.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import type { Destination, PricingOption } from '../../src/adcp/signal.js'
import { compileProvider, judgeAt, nextVerdictAt } from '../../src/authz/rules/verdict.js'
import { changesBetween } from '../../src/events/changes.js'
import type { Reader } from '../../src/feed/query.js'
import { drained } from '../../src/process/portions.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { rowAt, type Snapshot } from '../../src/snapshot/snapshot.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { stateWith } from '../authz/compiled.js'
import { proven } from '../support/proven.js'
import { emptyFeed } from './feed-of.js'
import { pageOf, type Row, rowsOf, walk } from './reader.js'
import { agentUrl, anonymous, buyer, listing, sliceOf } from './world.js'

const RUNS = 40
const HOUR = 3_600_000
const DAY = 24 * HOUR
const BEGIN = Date.parse('2026-03-01T00:00:00Z')
const FILE_MS = 7 * DAY

const SELLERS = ['one', 'two', 'three'] as const
const DOMAINS = ['p.example', 'q.example'] as const
const IDS = ['s1', 's2'] as const
/** The second and the third differ in how their last letter is written. */
const SEGMENTS = ['seg', 'caf\u00e9', 'cafe\u0301'] as const
const COUNTRIES = ['DE', 'FR', 'US']
const DESK: Destination = { type: 'platform', platform: 'the-trade-desk' }

type Seller = (typeof SELLERS)[number]
type Domain = (typeof DOMAINS)[number]
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
type Entry = {
  seller: Seller
  by: 'signal_ids' | 'signal_tags'
  names: readonly string[]
  countries: readonly string[] | undefined
  from: number | undefined
  until: number | undefined
}
type File = { signals: readonly Definition[]; entries: readonly Entry[] }
type World = {
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

type Step = { name: string; do(world: World): void }
const held = (world: World, of: Seller) => world.offers.get(of) as Map<string, Offer>

/** A seller changes a part of an offer that it has. */
const changing = <Part extends 'prices' | 'platforms'>(part: Part, next: fc.Arbitrary<Offer[Part]>) =>
  fc.tuple(seller, fc.constantFrom(...SEGMENTS), next).map(([who, segment, value]) => ({
    name: `${who} changes the ${part} of ${segment} to ${JSON.stringify(value)}`,
    do(world: World) {
      const what = held(world, who).get(segment)
      if (what) held(world, who).set(segment, { ...what, [part]: value })
    },
  }))

const step: fc.Arbitrary<Step> = fc.oneof(
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
      name: `${hours} hours pass`,
      do(world: World) {
        world.now += hours * HOUR
      },
    })),
  },
)

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

/** Whether an entry holds at this time; one whose end is not after its beginning never does. */
function isOpen({ from, until }: Entry, now: number): boolean {
  const hours = (now - BEGIN) / HOUR
  return (from === undefined || from <= hours) && (until === undefined || hours < until)
}

type Expected = {
  sellers: string[]
  consent: readonly string[] | undefined
  prices: string[]
  /** Platform, whether it is live, and the keys that may be shown. */
  platforms: Map<string, { isLive: boolean; keys: Set<string> }>
  countries: string[] | undefined
}

const both = (a: readonly string[] | undefined, b: readonly string[] | undefined) =>
  a && b ? a.filter((one) => b.includes(one)) : (a ?? b)
const priceText = ({ model, currency, cpm, percent }: Record<string, unknown>) =>
  [model, currency, cpm ?? percent].join(' ')

/** What the feed should say of one signal, read from the world as a person would. */
function expectedOf(world: World, of: Domain, id: string): Expected | undefined {
  const known = world.files.get(of)
  if (!known?.file || world.now >= known.confirmedAt + FILE_MS) return undefined
  const { signals, entries } = known.file
  const definitions = signals.filter((one) => one.id === id)
  const [definition] = definitions
  if (!definition) return undefined
  const tags = definition.tags.filter((tag) => definitions.every((one) => one.tags.includes(tag)))
  const found: Expected = {
    ...{ sellers: [], consent: definition.consent, prices: [], platforms: new Map(), countries: [] },
  }
  for (const who of SELLERS) {
    const grants = entries.filter(
      (one) =>
        one.seller === who &&
        isOpen(one, world.now) &&
        one.names.some((name) => (one.by === 'signal_ids' ? name === id : tags.includes(name))),
    )
    if (grants.length === 0) continue
    const granted = grants.some(({ countries }) => !countries)
      ? undefined
      : [...new Set(grants.flatMap(({ countries }) => countries ?? []))]
    for (const one of held(world, who).values()) {
      if (one.domain !== of || one.id !== id) continue
      const countries = both(both(definition.countries, granted), one.countries)
      if (countries?.length === 0) continue
      found.sellers.push(who)
      found.prices.push(...one.prices.map((each) => priceText(each as Record<string, unknown>)))
      for (const { platform, is_live, key } of one.platforms) {
        const known = found.platforms.get(platform) ?? { isLive: false, keys: new Set() }
        if (is_live) known.keys.add(key)
        found.platforms.set(platform, { ...known, isLive: known.isLive || is_live })
      }
      found.countries =
        countries && found.countries ? [...new Set([...found.countries, ...countries])].sort() : undefined
    }
  }
  return found.sellers.length > 0 ? found : undefined
}

function checkRow(
  row: Row,
  expected: Expected,
  { keys, isPriced }: { keys: boolean; isPriced: boolean },
): void {
  assert.deepEqual(row.ext.tributary.offers.map(({ upstream }) => upstream).sort(), expected.sellers.sort())
  assert.deepEqual(row.consent_basis, expected.consent)
  assert.deepEqual(row.countries, expected.countries)
  assert.deepEqual((row.pricing_options ?? []).map(priceText).sort(), isPriced ? expected.prices.sort() : [])
  assert.equal(row.deployments.length, expected.platforms.size)
  for (const { platform, is_live, activation_key: key } of row.deployments) {
    const on = expected.platforms.get(platform as string)
    assert.equal(is_live, on?.isLive)
    const isShown = keys && platform === 'the-trade-desk' && is_live
    assert.equal(key !== undefined, isShown, `key on ${platform}`)
    if (key) assert.ok(on?.keys.has((key as { segment_id: string }).segment_id))
  }
}

const READERS: Record<string, { reader: Reader; keys: boolean; isPriced: boolean }> = {
  buyer: { reader: buyer, keys: false, isPriced: true },
  granted: { reader: { ...buyer, grants: [DESK] }, keys: true, isPriced: true },
  anonymous: { reader: anonymous, keys: false, isPriced: false },
}
const QUERIES = [{}, { countries: ['DE'] }, { filters: { data_providers: ['p.example'] } }]

/** Both ways: one name stands for one text, and one text has one name. */
function createNames() {
  const texts = new Map<string, string>()
  const names = new Map<string, string>()
  return (name: string, text: string, what: string): void => {
    assert.equal(texts.get(name) ?? text, text, `${what}: one version of two feeds`)
    assert.equal(names.get(text) ?? name, name, `${what}: two versions of one feed`)
    texts.set(name, text)
    names.set(text, name)
  }
}

const handlesOf = (snapshot: Snapshot) =>
  new Map(
    [...snapshot.shown].map((entryAt) => {
      const row = rowAt(snapshot, entryAt)
      return [row.signal_agent_segment_id as string, JSON.stringify(row)]
    }),
  )

const domainOf = ({ signal_ref: ref }: Row) => (ref as { data_provider_domain?: string }).data_provider_domain

const told = { rows: 0, changes: 0, priced: 0, kept: 0 }

type Start = { offers: readonly (readonly Offer[])[]; files: readonly File[] }
const start: fc.Arbitrary<Start> = fc.record({
  offers: fc.array(fc.array(offer, { minLength: 2, maxLength: 3 }), { minLength: 3, maxLength: 3 }),
  files: fc.array(file, { minLength: 2, maxLength: 2 }),
})

function play({ offers, files }: Start, steps: readonly Step[]): void {
  const world: World = {
    now: BEGIN,
    offers: new Map(SELLERS.map((who, n) => [who, new Map(offers[n]?.map((one) => [one.segment, one]))])),
    files: new Map(DOMAINS.map((of, n) => [of, { file: files[n], confirmedAt: BEGIN }])),
  }
  const feed = emptyFeed({ ms: 1e15, bytes: 2 ** 30 })
  const names = new Map<string, ReturnType<typeof createNames>>()
  let next: number | undefined
  let began: { cursor: string; left: string } | undefined

  for (const { name, do: change } of [{ name: 'nothing', do: () => {} }, ...steps]) {
    const isTimeAlone = name.endsWith('hours pass')
    change(world)
    const compiled = new Map(
      DOMAINS.map((of) => {
        const known = world.files.get(of)
        const state = known?.file
          ? { ...stateWith(documentOf(known.file)), expiresAt: known.confirmedAt + FILE_MS }
          : {}
        return [of, compileProvider({ ...state, domain: of })] as const
      }),
    )
    const input = {
      slices: SELLERS.map((who) => sliceOf(who, [...held(world, who).values()].map(listingOf))),
      judge: judgeAt(compiled, { policy: 'strict', providers: {} }, world.now),
    }
    const before = feed.current()
    const snapshot = buildSnapshot({ ...(before && { previous: before }), ...input })
    assert.equal(snapshot.id, buildSnapshot(input).id, 'what is built on another is what is built alone')
    if (isTimeAlone && (next === undefined || world.now < next)) {
      told.kept += 1
      assert.equal(snapshot.id, before?.id, 'nothing was due, and something changed')
    }
    next = nextVerdictAt(compiled, DOMAINS, world.now)
    feed.publish(snapshot, world.now)

    // Applying what changed to the feed before gives the feed now.
    const mirror = before ? handlesOf(before) : new Map<string, string>()
    for (const one of before ? drained(changesBetween(before, snapshot, 1_000)).changes : []) {
      told.changes += 1
      if (one.kind === 'priced') told.priced += 1
      if (one.kind === 'removed')
        mirror.delete(rowAt(before as Snapshot, one.before).signal_agent_segment_id as string)
      else {
        const row = rowAt(snapshot, one.after)
        mirror.set(row.signal_agent_segment_id as string, JSON.stringify(row))
      }
    }
    if (before) assert.deepEqual(new Map([...mirror].sort()), new Map([...handlesOf(snapshot)].sort()))

    // A walk that began before goes on in what there was.
    if (began) {
      const rest = walk(feed, { maxResults: 1, cursor: began.cursor }, buyer)
      const rows = rest.flatMap(rowsOf)
      assert.equal(JSON.stringify(rows), began.left, 'a walk of two generations')
    }

    for (const [who, { reader, ...shows }] of Object.entries(READERS)) {
      for (const query of QUERIES) {
        const pages = walk(feed, { ...query, maxResults: 100 }, reader)
        const rows = pages.flatMap(rowsOf)
        const { feedVersion, pricingVersion } = pageOf(pages[0] as never)
        const what = `${who} ${JSON.stringify(query)}`
        const known = names.get(what) ?? createNames()
        names.set(what, known)
        known(`${feedVersion} ${pricingVersion}`, JSON.stringify(rows), what)
        const again = feed.wholesale(
          {
            ...query,
            maxResults: 100,
            ifFeedVersion: feedVersion,
            ifPricingVersion: pricingVersion,
          } as never,
          reader,
          world.now,
        )
        assert.equal(again.kind, 'unchanged', `${what}: ${JSON.stringify(Object.keys(again))}`)
        if (Object.keys(query).length > 0) continue
        const found = new Map(rows.map((row) => [`${domainOf(row)} ${row.signal_ref.signal_id}`, row]))
        for (const of of DOMAINS) {
          for (const id of IDS) {
            const expected = expectedOf(world, of, id)
            const row = found.get(`${of} ${id}`)
            assert.equal(row !== undefined, expected !== undefined, `${of} ${id} is there, or not`)
            if (row && expected) checkRow(row, expected, shows)
          }
        }
        told.rows += rows.length
        const options = rows.flatMap((row) => (row.pricing_options ?? []).map((one) => one.pricing_option_id))
        assert.equal(new Set(options).size, options.length, 'an id of two prices')
      }
    }
    const first = pageOf(feed.wholesale({ maxResults: 1 }, buyer, world.now))
    const all = walk(feed, { maxResults: 100 }, buyer).flatMap(rowsOf)
    began = first.cursor ? { cursor: first.cursor, left: JSON.stringify(all.slice(1)) } : undefined
  }
}

test('whatever sellers and providers change, the feed is what a plain reading of it gives', (t) => {
  proven(t, RUNS, fc.property(start, fc.array(step, { minLength: 5, maxLength: 15 }), play))
  t.comment(JSON.stringify(told))
  for (const [what, count] of Object.entries(told)) t.ok(count > RUNS / 10, `${what}: ${count}`)
  t.end()
})
