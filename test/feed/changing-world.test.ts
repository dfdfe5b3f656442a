/**
 * After each step of a changing world (changing-world.ts) the feed is what a straightforward reading of what there is gives, and it
 * keeps its own promises.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import type { Destination } from '../../src/adcp/signal.js'
import { judgeAt, nextVerdictAt } from '../../src/authz/rules/verdict.js'
import { changesBetween } from '../../src/events/changes.js'
import type { Feed } from '../../src/feed/feed.js'
import type { Page, Reader, WholesaleQuery } from '../../src/feed/query.js'
import { drained } from '../../src/process/portions.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { rowAt, type Snapshot } from '../../src/snapshot/snapshot.js'
import { proven } from '../support/proven.js'
import {
  BEGIN,
  compiledOf,
  DOMAINS,
  type Domain,
  type Entry,
  FILE_MS,
  HOUR,
  held,
  IDS,
  SELLERS,
  type Start,
  type Step,
  slicesOf,
  start,
  step,
  type World,
  worldOf,
} from './changing-world.js'
import { emptyFeed } from './feed-of.js'
import { pageOf, type Row, rowsOf, walk } from './reader.js'
import { anonymous, buyer } from './world.js'

const RUNS = 20
const DESK: Destination = { type: 'platform', platform: 'the-trade-desk' }
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

/** What a reader is shown: keys on one platform, and prices. */
type Shows = { keys: boolean; isPriced: boolean }

function checkRow(row: Row, expected: Expected, { keys, isPriced }: Shows): void {
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

const READERS: Record<string, Shows & { reader: Reader }> = {
  buyer: { reader: buyer, keys: false, isPriced: true },
  granted: { reader: { ...buyer, grants: [DESK] }, keys: true, isPriced: true },
  anonymous: { reader: anonymous, keys: false, isPriced: false },
}
const QUERIES = [{}, { countries: ['DE'] }, { filters: { data_providers: ['p.example'] } }]

/** Both ways: one name of what is read stands for one text, and one text has one name. */
function createNames() {
  const texts = new Map<string, string>()
  const names = new Map<string, string>()
  return (what: string, name: string, text: string): void => {
    const [named, written] = [`${what} ${name}`, `${what} ${text}`]
    assert.equal(texts.get(named) ?? text, text, `${what}: one version of two feeds`)
    assert.equal(names.get(written) ?? name, name, `${what}: two versions of one feed`)
    texts.set(named, text)
    names.set(written, name)
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

/** Applying what changed to the feed before gives the feed now. */
function checkChanges(before: Snapshot, after: Snapshot): void {
  const mirror = handlesOf(before)
  for (const one of drained(changesBetween(before, after, 1_000)).changes) {
    told.changes += 1
    if (one.kind === 'priced') told.priced += 1
    if (one.kind === 'removed') mirror.delete(rowAt(before, one.before).signal_agent_segment_id as string)
    else {
      const row = rowAt(after, one.after)
      mirror.set(row.signal_agent_segment_id as string, JSON.stringify(row))
    }
  }
  assert.deepEqual(new Map([...mirror].sort()), new Map([...handlesOf(after)].sort()))
}

type Begun = { cursor: string; left: string }

/** A walk that stands after its first signal; undefined where there is no second. */
function beginWalk(feed: Feed, now: number): Begun | undefined {
  const { cursor } = pageOf(feed.wholesale({ maxResults: 1 }, buyer, now))
  const all = walk(feed, { maxResults: 100 }, buyer).flatMap(rowsOf)
  return cursor ? { cursor, left: JSON.stringify(all.slice(1)) } : undefined
}

/** It goes on in what there was when it began. */
function checkWalk(feed: Feed, { cursor, left }: Begun): void {
  const rows = walk(feed, { maxResults: 1, cursor }, buyer).flatMap(rowsOf)
  assert.equal(JSON.stringify(rows), left, 'a walk of two generations')
}

type Asked = { query: Partial<WholesaleQuery>; reader: Reader }

/** Whoever has the feed under its versions is told that it is unchanged. */
function checkCondition(feed: Feed, { query, reader }: Asked, held: Page, now: number): void {
  const { feedVersion: ifFeedVersion, pricingVersion: ifPricingVersion } = held
  const condition = { ifFeedVersion, ...(ifPricingVersion !== undefined && { ifPricingVersion }) }
  const again = feed.wholesale({ ...query, maxResults: 100, ...condition }, reader, now)
  assert.equal(again.kind, 'unchanged', JSON.stringify([query, Object.keys(again)]))
}

/** The signals that are there are those that should be, and say what they should. */
function checkRows(world: World, rows: readonly Row[], shows: Shows): void {
  const found = new Map(rows.map((row) => [`${domainOf(row)} ${row.signal_ref.signal_id}`, row]))
  for (const of of DOMAINS) {
    for (const id of IDS) {
      const expected = expectedOf(world, of, id)
      const row = found.get(`${of} ${id}`)
      assert.equal(row !== undefined, expected !== undefined, `${of} ${id} is there, or not`)
      if (row && expected) checkRow(row, expected, shows)
    }
  }
  const options = rows.flatMap((row) => (row.pricing_options ?? []).map((one) => one.pricing_option_id))
  assert.equal(new Set(options).size, options.length, 'an id of two prices')
  told.rows += rows.length
}

/** Publishes what the world has become, built on what was published before. */
function createPublishing(feed: Feed) {
  let nextAt: number | undefined // when a verdict is due to become another
  return (world: World, isTimeAlone: boolean): Snapshot => {
    const compiled = compiledOf(world)
    const judge = judgeAt(compiled, { policy: 'strict', providers: {} }, world.now)
    const input = { slices: slicesOf(world), judge }
    const before = feed.current()
    const snapshot = buildSnapshot({ ...(before && { previous: before }), ...input })
    assert.equal(snapshot.id, buildSnapshot(input).id, 'what is built on another is what is built alone')
    if (isTimeAlone && (nextAt === undefined || world.now < nextAt)) {
      told.kept += 1
      assert.equal(snapshot.id, before?.id, 'nothing was due, and something changed')
    }
    nextAt = nextVerdictAt(compiled, DOMAINS, world.now)
    feed.publish(snapshot, world.now)
    return snapshot
  }
}

const NOTHING: Step = { name: 'nothing', do: () => {} }

function play(from: Start, steps: readonly Step[]): void {
  const world = worldOf(from)
  const feed = emptyFeed({ ms: 1e15, bytes: 2 ** 30 })
  const publish = createPublishing(feed)
  const checkName = createNames()
  let begun: Begun | undefined

  for (const { do: change, isTimeAlone = false } of [NOTHING, ...steps]) {
    change(world)
    const before = feed.current()
    const snapshot = publish(world, isTimeAlone)
    if (before) checkChanges(before, snapshot)
    if (begun) checkWalk(feed, begun)
    for (const [who, { reader, ...shows }] of Object.entries(READERS)) {
      for (const query of QUERIES) {
        const pages = walk(feed, { ...query, maxResults: 100 }, reader)
        const rows = pages.flatMap(rowsOf)
        const first = pages[0] as Page
        const version = `${first.feedVersion} ${first.pricingVersion}`
        checkName(`${who} ${JSON.stringify(query)}`, version, JSON.stringify(rows))
        checkCondition(feed, { query, reader }, first, world.now)
        if (Object.keys(query).length === 0) checkRows(world, rows, shows)
      }
    }
    begun = beginWalk(feed, world.now)
  }
}

test('whatever sellers and providers change, the feed is what a plain reading of it gives', (t) => {
  proven(t, RUNS, fc.property(start, fc.array(step, { minLength: 5, maxLength: 15 }), play))
  t.comment(JSON.stringify(told))
  for (const [what, count] of Object.entries(told)) t.ok(count > RUNS / 10, `${what}: ${count}`)
  t.end()
})
