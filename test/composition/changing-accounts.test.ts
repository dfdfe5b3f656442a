/**
 * Callers' accounts that come, change and go, agents that offer each of them something else or answer questions only, providers and
 * a policy that change. Whatever happens, each caller is shown what a plain reading gives: nobody sees another's price or key,
 * nobody is told `public` while its prices differ, versions move exactly with content, and a walk is of one generation.
 */
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import { proven } from '../support/proven.js'
import { begin, type Start, type Step, start, step } from './support/accounts-commands.js'
import {
  configOf,
  createModel,
  DOMAINS,
  expectedOf,
  type Model,
  mayRead,
  type Reading,
  readings,
  takeUp,
} from './support/accounts-model.js'
import { SIGNAL_IDS } from './support/spoken-agents.js'
import { type Said, startSpoken } from './support/spoken-world.js'

const RUNS = 4
const ROUND_MS = 70_000 // every upstream and every provider is read in it
const LEAST_ROUNDS = 4 // what is doubted is looked at twice, and questions follow files
const MOST_ROUNDS = 12
const WHOLESALE = { discovery_mode: 'wholesale' }

type Row = {
  signal_agent_segment_id: string
  signal_ref: { data_provider_domain?: string; signal_source_url?: string; signal_id: string }
  deployments: { is_live: boolean; activation_key?: { segment_id: string } }[]
  pricing_options?: { cpm: number }[]
  ext: { tributary: { offers: { upstream: string; verdict: string }[] } }
}
type World = ReturnType<typeof startSpoken>
type Page = {
  rows: Row[]
  scope: unknown
  feed: string
  pricing: string | undefined
  lacks: string
  cursor?: string
}

const told = { rows: 0, own: 0, unread: 0, keys: 0, walks: 0, unchanged: 0, unverified: 0, settled: 0 }

const accountOf = ({ asAccount }: Reading) => (asAccount ? { account: { account_id: 'own' } } : {})

function pageOf(said: Said, what: string): Page {
  if (said.adcp_error) throw new Error(`${what}: ${JSON.stringify(said.adcp_error)}`)
  const { signals, cache_scope, wholesale_feed_version, pricing_version, incomplete, pagination } = said
  return {
    rows: (signals ?? []) as unknown as Row[],
    scope: cache_scope,
    feed: wholesale_feed_version as string,
    pricing: pricing_version,
    lacks: (incomplete ?? []).map((one) => `${one.scope} ${one.description}`).join('\n'),
    ...(pagination?.cursor && { cursor: pagination.cursor }),
  }
}

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

type Begun = { rest: string; cursor: string; first: Page; definition: string }

/** What a walk depends on besides the feed: whose account it is, and whose keys are shown. */
const definitionOf = ({ buyer, asAccount }: Reading) =>
  JSON.stringify([buyer?.isThere, buyer?.seesKeys, asAccount && [...(buyer?.account ?? [])]])

function play(world: World, model: Model) {
  const names = new Map<string, ReturnType<typeof createNames>>()
  const seen = new Map<string, Page>() // what each was shown last
  const begun = new Map<string, Begun>()

  async function ask(reading: Reading, more: object = {}): Promise<Page | undefined> {
    const input = { ...WHOLESALE, ...accountOf(reading), ...more }
    const said = await world.ask(reading.buyer?.key, input)
    const again = await world.ask(reading.buyer?.key, input, true)
    assert.deepEqual(again, said, `${reading.name}: another answer to one who asks again`)
    return said && pageOf(said, reading.name)
  }

  /** Nobody sees a price or a key that is another's, whenever it asks. */
  function checkPrivacy(reading: Reading, text: string): void {
    const things = [
      ...[...text.matchAll(/"cpm":(\d+)/g)].map(([, cpm]) => `cpm ${cpm}`),
      ...[...text.matchAll(/live-\d+-/g)].map(([key]) => key),
    ]
    for (const thing of things) {
      assert.ok(mayRead(model, reading, thing), `${reading.name} sees ${thing}, which is another's`)
    }
    if (!reading.buyer) assert.deepEqual(things, [], 'somebody without a key sees prices, or keys')
    else if (!reading.buyer.seesKeys) assert.doesNotMatch(text, /live-/, `${reading.name} sees a key`)
  }

  function checkVersions(reading: Reading, { rows, scope, feed, pricing }: Page): void {
    const whose = scope === 'account' ? reading.buyer?.id : ''
    const visibility = reading.buyer ? 'full' : 'metadata'
    const of = (what: string) => {
      const name = `${what} ${visibility} ${whose}`
      const known = names.get(name) ?? createNames()
      names.set(name, known)
      return known
    }
    of('both')(`${feed} ${pricing}`, JSON.stringify([scope, rows]), reading.name)
    const unpriced = rows.map(({ pricing_options: _, ...rest }) => rest)
    of('feed')(feed, JSON.stringify([scope, unpriced]), reading.name)
  }

  /** With tokens of earlier answers, of this reader and of others: unchanged means that it is what it was. */
  async function checkUnchanged(reading: Reading, page: Page): Promise<void> {
    const tried = new Map([page, ...seen.values()].map((one) => [`${one.feed} ${one.pricing}`, one]))
    for (const { feed, pricing } of tried.values()) {
      const isSame = feed === page.feed && (pricing === undefined || pricing === page.pricing)
      const tokens = { if_wholesale_feed_version: feed, ...(pricing && { if_pricing_version: pricing }) }
      const said = await world.ask(reading.buyer?.key, { ...WHOLESALE, ...accountOf(reading), ...tokens })
      assert.equal(said?.unchanged === true, isSame, `${reading.name}: unchanged, or not`)
      if (isSame) told.unchanged += 1
    }
  }

  /** Rows that are looked up are those of the feed. */
  async function checkLookup(reading: Reading, { rows, scope }: Page): Promise<void> {
    const refs = [
      ...DOMAINS.flatMap((domain) =>
        SIGNAL_IDS.map((id) => ({ scope: 'data_provider', data_provider_domain: domain, signal_id: id })),
      ),
      ...model.agents.flatMap(({ url }) =>
        SIGNAL_IDS.map((_, at) => ({
          scope: 'signal_source',
          signal_source_url: url,
          signal_id: `own_${at}`,
        })),
      ),
    ]
    const said = await world.ask(reading.buyer?.key, { signal_refs: refs, ...accountOf(reading) })
    const looked = pageOf(said as Said, `${reading.name} looks up`)
    const byHandle = (all: Row[]) =>
      new Map(
        all
          .map((one): [string, Row] => [one.signal_agent_segment_id, one])
          .sort(([a], [b]) => (a < b ? -1 : 1)),
      )
    assert.deepEqual(byHandle(looked.rows), byHandle(rows), `${reading.name}: looked up, it is another`)
    assert.equal(looked.scope, scope)
  }

  /** A walk that began before goes on in what there was then, as long as it is the same account's. */
  async function checkWalk(reading: Reading): Promise<void> {
    const before = begun.get(reading.name)
    if (!before) return
    const said = await world.ask(reading.buyer?.key, {
      ...{ ...WHOLESALE, ...accountOf(reading) },
      pagination: { max_results: 100, cursor: before.cursor },
    })
    if (said) checkPrivacy(reading, JSON.stringify(said))
    if (before.definition !== definitionOf(reading) || !said) return
    const { rows, scope, feed, pricing } = pageOf(said, `${reading.name} goes on`)
    const { first } = before
    assert.deepEqual(
      [scope, feed, pricing],
      [first.scope, first.feed, first.pricing],
      `${reading.name}: a walk of two generations`,
    )
    assert.equal(JSON.stringify(rows), before.rest, `${reading.name}: rows of two generations`)
    told.walks += 1
  }

  async function beginWalk(reading: Reading, page: Page): Promise<void> {
    const first = await ask(reading, { pagination: { max_results: 1 } })
    if (!first?.cursor) return void begun.delete(reading.name)
    const rest = JSON.stringify(page.rows.slice(1))
    begun.set(reading.name, { rest, first, cursor: first.cursor, definition: definitionOf(reading) })
  }

  /** What holds whenever somebody asks. */
  async function checkAnyTime(asking: readonly Reading[]): Promise<void> {
    for (const reading of asking) {
      const page = await ask(reading)
      assert.equal(page !== undefined, reading.buyer?.isThere !== false, `${reading.name} is let in, or not`)
      await checkWalk(reading)
      if (!page) continue
      checkPrivacy(reading, JSON.stringify(page))
      checkVersions(reading, page)
      await checkUnchanged(reading, page)
      await checkLookup(reading, page)
      if (!reading.asAccount) assert.equal(page.scope, 'public', `${reading.name} named no account`)
      else if (page.scope === 'public') {
        const open = await ask({ ...reading, asAccount: false })
        const shown = ({ rows, feed, pricing }: Page) => [rows, feed, pricing]
        assert.deepEqual(shown(page), shown(open as Page), `${reading.name} is told public, and it differs`)
      }
    }
  }

  /** Before anything is read or merged, whoever is who it was is shown what it was shown: in its scope, under its versions. */
  async function checkStill(isOther: (reading: Reading) => boolean): Promise<void> {
    for (const reading of readings(model)) {
      const before = seen.get(reading.name)
      if (!before || isOther(reading)) continue
      const shown = ({ rows, scope, feed, pricing }: Page) => [scope, feed, pricing, rows]
      const page = await ask(reading)
      assert.deepEqual(page && shown(page), shown(before), `${reading.name}: something has changed already`)
    }
  }

  /** Why a reader is not shown what it is to be shown. */
  async function difference(): Promise<string | undefined> {
    for (const reading of readings(model)) {
      const page = await ask(reading)
      const expected = expectedOf(model, reading)
      if (!page || expected.isUnsure) continue
      const found = new Map(
        page.rows.map((row): [string, object] => {
          const { signal_ref: ref, deployments, pricing_options: options = [], ext } = row
          const shown = {
            offers: ext.tributary.offers.map(({ upstream, verdict }) => `${upstream} ${verdict}`).sort(),
            prices: options.map(({ cpm }) => cpm).sort((a, b) => a - b),
            isLive: deployments.some(({ is_live }) => is_live),
            keys: deployments.flatMap(({ activation_key: key }) => (key ? [key.segment_id] : [])),
          }
          return [`${ref.data_provider_domain ?? ref.signal_source_url} ${ref.signal_id}`, shown]
        }),
      )
      const wanted = new Map(
        [...expected.rows].map(([name, shown]): [string, object] => {
          const keys = (found.get(name) as { keys?: string[] } | undefined)?.keys ?? []
          const isOne = keys.length === 1 && shown.keys.includes(keys[0] as string)
          const isRight = reading.buyer?.seesKeys && shown.isLive ? isOne : keys.length === 0
          return [
            name,
            {
              ...shown,
              prices: reading.buyer ? shown.prices : [],
              keys: isRight ? keys : ['one of', ...shown.keys],
            },
          ]
        }),
      )
      const text = (all: Map<string, object>) => JSON.stringify([...all].sort(([a], [b]) => (a < b ? -1 : 1)))
      if (text(found) !== text(wanted)) return `${reading.name} is shown ${text(found)}, not ${text(wanted)}`
      if (page.scope !== expected.scope) return `${reading.name} is told ${page.scope}, not ${expected.scope}`
      const named = model.agents.flatMap(({ name }) =>
        page.lacks.includes(`The prices of ${name} for this account`) ? name : [],
      )
      if (reading.asAccount && !isDeepStrictEqual(named, expected.unread))
        return `${reading.name} is told that ${named} are unread, not ${expected.unread}`
      told.rows += found.size
      told.own += page.scope === 'account' ? 1 : 0
      told.unread += expected.unread.length
      told.keys += page.rows.filter((row) => JSON.stringify(row).includes('live-')).length
      told.unverified += page.rows.filter((row) => JSON.stringify(row.ext).includes('"un')).length
    }
    return undefined
  }

  async function settle(): Promise<void> {
    for (let round = 1; ; round += 1) {
      world.time.advance(ROUND_MS)
      await world.quiet()
      takeUp(model)
      const why = round < LEAST_ROUNDS ? 'it is early' : await difference()
      if (!why) break
      if (round > MOST_ROUNDS) throw new Error(`it never settled: ${why}`)
    }
    told.settled += 1
  }

  return {
    settle,
    async take({ name, run }: Step): Promise<void> {
      const definitions = new Map(readings(model).map((reading) => [reading.name, definitionOf(reading)]))
      await run(model, {
        reload: () => world.apply(configOf(model)),
        async pass(ms) {
          world.time.advance(ms)
          await world.quiet()
        },
      })
      try {
        const isOther = (reading: Reading) => definitions.get(reading.name) !== definitionOf(reading)
        if (!name.endsWith('passes')) await checkStill(isOther)
        await checkAnyTime(readings(model).filter(isOther)) // before anything was read for them
        await world.quiet()
        await checkAnyTime(readings(model))
        await settle()
        for (const reading of readings(model)) {
          const page = await ask(reading)
          if (page) seen.set(reading.name, page)
          else seen.delete(reading.name)
          if (page) await beginWalk(reading, page)
        }
      } catch (error) {
        throw new Error(`after "${name}": ${(error as Error).message}`, { cause: error })
      }
    },
  }
}

async function run(first: Start, steps: readonly Step[]): Promise<void> {
  const model = createModel()
  begin(model, first)
  const world = startSpoken(model.agents, model.files, configOf(model))
  try {
    await world.start()
    const { settle, take } = play(world, model)
    await settle()
    for (const one of steps) await take(one)
  } finally {
    await world.close()
  }
}

test('whatever changes for whom, each caller is shown its own, and what it is told of it is so', async (t) => {
  const steps = fc.array(step, { minLength: 6, maxLength: 12 })
  await proven(t, RUNS, fc.asyncProperty(fc.noShrink(start), fc.noShrink(steps), run))
  t.comment(JSON.stringify(told))
  for (const [what, count] of Object.entries(told)) t.ok(count > 0, `${what}: ${count}`)
})
