/**
 * Agents whose feed changes between readings and during them, at random, honestly and not. Whatever they do, what is held is what
 * one pass over their pages showed under one version; "unchanged" is believed only of the version that is held; and an agent that
 * never lied is not suspected of it.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { type AgentOutcome, callFailed } from '../../src/upstreams/agent/agent.js'
import { dialectOf } from '../../src/upstreams/agent/dialect.js'
import { createMirror, type HeldSlice } from '../../src/upstreams/mirror/mirror.js'
import { PUBLIC } from '../../src/upstreams/mirror/scope-setting.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import { sliceListing } from '../../src/upstreams/rows/slice.js'
import { proven } from '../support/proven.js'
import { createManualClock } from '../support/upstream-clock.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const RUNS = 100
const PAGE = 3
const MINUTE = 60_000

type Row = Record<string, unknown> & { signal_agent_segment_id: string }
type Tokens = { wholesale_feed_version?: string; pricing_version?: string; cache_scope?: string }
type Generation = { rows: readonly Row[]; tokens: Tokens }

/** What the agent does in the course of one reading, beside answering. */
type Misdeed =
  | { kind: 'none' }
  /** Before its nth answer it has become another. */
  | { kind: 'moves'; at: number; to: number }
  /** Its first answers do not tell a version. */
  | { kind: 'mute'; answers: number }
  /** Both. */
  | { kind: 'mute-moves'; answers: number; at: number; to: number }
  | { kind: 'fails'; at: number }
  /** It says "unchanged" to whatever it is asked, under the tokens that it has, or under none. */
  | { kind: 'unchanged'; under: 'own' | 'none' | 'asked' }
  /** Its count of rows is wrong. */
  | { kind: 'counts'; total: number }
  /** Every page begins with the last row of the one before. */
  | { kind: 'repeats' }
  /** The nth page has lost its rows. */
  | { kind: 'loses'; at: number }
  /** Its cursors lead back. */
  | { kind: 'loops' }

type Step = {
  change:
    | { kind: 'stays' }
    | { kind: 'publishes'; rows: readonly number[]; cpm: number; feed: boolean; pricing: boolean }
    | { kind: 'goes-back'; to: number }
    | { kind: 'quietly'; rows: readonly number[]; cpm: number }
    | { kind: 'scope'; scope: 'public' | 'account' }
  misdeed: Misdeed
  minutes: number
}

const anyRows = fc.oneof(
  { weight: 6, arbitrary: fc.subarray([...Array(14).keys()], { minLength: 8 }) },
  { weight: 1, arbitrary: fc.constant<number[]>([]) },
)
const at = fc.integer({ min: 1, max: 4 })
const anyCpm = fc.integer({ min: 1, max: 3 })

const anyMisdeed: fc.Arbitrary<Misdeed> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Misdeed>({ kind: 'none' }) },
  fc.record({ kind: fc.constant('moves' as const), at, to: fc.nat(9) }),
  fc.record({ kind: fc.constant('mute' as const), answers: at }),
  fc.record({ kind: fc.constant('mute-moves' as const), answers: at, at, to: fc.nat(9) }),
  fc.record({ kind: fc.constant('fails' as const), at }),
  fc.record({ kind: fc.constant('unchanged' as const), under: fc.constantFrom('own', 'none', 'asked') }),
  fc.record({ kind: fc.constant('counts' as const), total: fc.nat(40) }),
  fc.constant<Misdeed>({ kind: 'repeats' }),
  fc.record({ kind: fc.constant('loses' as const), at }),
  fc.constant<Misdeed>({ kind: 'loops' }),
)

const honestMisdeed: fc.Arbitrary<Misdeed> = fc.oneof(
  { weight: 2, arbitrary: fc.constant<Misdeed>({ kind: 'none' }) },
  fc.record({ kind: fc.constant('moves' as const), at, to: fc.nat(9) }),
  fc.record({ kind: fc.constant('fails' as const), at }),
)

const publishes = fc.record({
  kind: fc.constant('publishes' as const),
  ...{ rows: anyRows, cpm: anyCpm, feed: fc.boolean(), pricing: fc.boolean() },
})
const honestChange = fc.oneof(
  fc.constant({ kind: 'stays' as const }),
  publishes,
  fc.record({ kind: fc.constant('goes-back' as const), to: fc.nat(9) }),
)
const anyChange = fc.oneof(
  { weight: 4, arbitrary: honestChange },
  fc.record({ kind: fc.constant('quietly' as const), rows: anyRows, cpm: anyCpm }),
  fc.record({
    kind: fc.constant('scope' as const),
    scope: fc.constantFrom('public' as const, 'account' as const),
  }),
)
const minutes = fc.constantFrom(1, 1, 5, 21, 60)
const anySteps = fc.array(fc.record({ change: anyChange, misdeed: anyMisdeed, minutes }), { maxLength: 14 })
const honestSteps = fc.array(fc.record({ change: honestChange, misdeed: honestMisdeed, minutes }), {
  maxLength: 14,
})

const rowsOf = (numbers: readonly number[], cpm: number) =>
  numbers.map((n) =>
    row(n, { pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }] }),
  ) as Row[]

/** What the agent was asked and said in one reading. */
type Said = {
  cursor: boolean
  asked: Tokens
  tokens: Tokens
  unchanged: boolean
  rows: readonly Row[]
  failed: boolean
}

function createAgent() {
  let versions = 1
  const generations: Generation[] = [{ rows: rowsOf([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 1), tokens: tokensOf() }]
  let current = generations[0] as Generation
  let misdeed: Misdeed = { kind: 'none' }
  let answers = 0
  let said: Said[] = []

  function tokensOf(before: Tokens = {}, feed = true, pricing = true): Tokens {
    versions += 1
    return {
      wholesale_feed_version: feed ? `f${versions}` : (before.wholesale_feed_version ?? 'f0'),
      pricing_version: pricing ? `p${versions}` : (before.pricing_version ?? 'p0'),
      cache_scope: before.cache_scope ?? 'public',
    }
  }

  const become = (to: number) => {
    current = generations[to % generations.length] as Generation
  }

  function answer(args: Record<string, unknown>): AgentOutcome {
    answers += 1
    if ((misdeed.kind === 'moves' || misdeed.kind === 'mute-moves') && answers === misdeed.at) {
      become(misdeed.to)
    }
    const { cursor } = args.pagination as { cursor?: string }
    const asked = {
      ...(args.if_wholesale_feed_version !== undefined && {
        wholesale_feed_version: String(args.if_wholesale_feed_version),
      }),
      ...(args.if_pricing_version !== undefined && { pricing_version: String(args.if_pricing_version) }),
    }
    const isMute = (misdeed.kind === 'mute' || misdeed.kind === 'mute-moves') && answers <= misdeed.answers
    const tokens = isMute ? {} : current.tokens
    const note = { cursor: cursor !== undefined, asked, tokens, unchanged: false, rows: [], failed: false }
    if (misdeed.kind === 'fails' && answers === misdeed.at) {
      said.push({ ...note, failed: true })
      return callFailed('server_error', '503')
    }
    const isConditional = cursor === undefined && asked.wholesale_feed_version !== undefined
    const { wholesale_feed_version: feed, pricing_version: pricing } = current.tokens
    const matches =
      isConditional &&
      asked.wholesale_feed_version === feed &&
      (asked.pricing_version === undefined || asked.pricing_version === pricing)
    if (isConditional && (matches || misdeed.kind === 'unchanged')) {
      const under = misdeed.kind === 'unchanged' ? misdeed.under : 'own'
      const told = under === 'own' ? current.tokens : under === 'asked' ? { ...current.tokens, ...asked } : {}
      said.push({ ...note, tokens: told, unchanged: true })
      return {
        kind: 'answer',
        payload: { status: 'completed', unchanged: true, ...told },
        rows: readRows([]),
      }
    }
    const all = current.rows
    const from = Number(cursor ?? 0)
    const to = from + PAGE
    const first = misdeed.kind === 'repeats' && from > 0 ? from - 1 : from
    const isLost = misdeed.kind === 'loses' && answers === misdeed.at
    const rows = isLost ? [] : all.slice(first, to)
    const more = to < all.length || misdeed.kind === 'loops'
    const total = misdeed.kind === 'counts' ? misdeed.total : all.length
    const next = misdeed.kind === 'loops' && to >= all.length ? 0 : to
    said.push({ ...note, rows })
    const pagination = { has_more: more, total_count: total, ...(more && { cursor: String(next) }) }
    return {
      kind: 'answer',
      payload: { status: 'completed', signals: [], ...tokens, pagination },
      rows: readRows(rows.map((one) => Buffer.from(JSON.stringify(one)))),
    }
  }

  return {
    answer,
    current: () => current,
    change(change: Step['change']): void {
      const { tokens } = current
      if (change.kind === 'publishes') {
        const isSame = JSON.stringify(rowsOf(change.rows, change.cpm)) === JSON.stringify(current.rows)
        const isMoved = change.feed || change.pricing || isSame
        generations.push({
          rows: rowsOf(change.rows, change.cpm),
          tokens: tokensOf(tokens, change.feed || !isMoved, change.pricing || !isMoved),
        })
        become(generations.length - 1)
      } else if (change.kind === 'goes-back') become(change.to)
      else if (change.kind === 'quietly') current = { rows: rowsOf(change.rows, change.cpm), tokens }
      else if (change.kind === 'scope')
        current = { ...current, tokens: { ...tokens, cache_scope: change.scope } }
    },
    begin(next: Misdeed): void {
      misdeed = next
      answers = 0
      said = []
    },
    said: () => said,
  }
}

type Agent = ReturnType<typeof createAgent>

const NAMES = ['wholesale_feed_version', 'pricing_version', 'cache_scope'] as const
const contradict = (a: Tokens, b: Tokens) =>
  NAMES.some((name) => a[name] !== undefined && b[name] !== undefined && a[name] !== b[name])

/** The pages since the walk was begun last. */
function lastPass(said: readonly Said[]): readonly Said[] {
  const pages = said.filter(({ unchanged }) => !unchanged)
  return pages.slice(pages.findLastIndex(({ cursor }) => !cursor))
}

function eachOnce(pages: readonly Said[]): Row[] {
  const found = new Map<string, Row>()
  for (const one of pages.flatMap(({ rows }) => rows)) {
    if (!found.has(one.signal_agent_segment_id)) found.set(one.signal_agent_segment_id, one)
  }
  return [...found.values()]
}

const heldRows = (held: HeldSlice | undefined) =>
  held ? Array.from({ length: held.slice.rows.count }, (_, n) => sliceListing(held.slice, n)) : []

function toldOf({ slice, cacheScope }: HeldSlice): Tokens {
  return {
    ...(slice.feedVersion && { wholesale_feed_version: slice.feedVersion }),
    ...(slice.pricingVersion && { pricing_version: slice.pricingVersion }),
    ...(cacheScope && { cache_scope: cacheScope }),
  }
}

function startMirror(agent: Agent) {
  const time = createManualClock()
  const dialect = dialectOf({ kind: 'answer', payload: CAPABILITIES, rows: readRows([]) })
  assert.ok(dialect)
  let held: HeldSlice | undefined
  const mirror = createMirror({
    ...{ upstream: 'a', agentUrl: 'https://a.example/mcp', scope: PUBLIC, seeds: [] },
    ...{ pageSize: PAGE, refreshMs: MINUTE, walkMs: MINUTE, dropAfterMs: 24 * 60 * MINUTE },
    ...{ referencesFor: () => [], namesFor: () => [] },
    ask: async (_task, args) => agent.answer(args),
    sleep: async () => {},
    ...{ now: time.clock.now, random: () => 0.5 },
    share: { gathers: () => true, maxRows: () => Number.POSITIVE_INFINITY },
  })
  return {
    time,
    held: () => held,
    async read(misdeed: Misdeed) {
      agent.begin(misdeed)
      const before = held
      const outcome = await mirror.refresh(held, dialect)
      if (outcome.kind === 'unchanged' || outcome.kind === 'replaced') held = outcome.held
      return { outcome, before }
    },
  }
}

/** What one reading brought, against what the agent said in it. */
function check(
  agent: Agent,
  { outcome, before }: Awaited<ReturnType<ReturnType<typeof startMirror>['read']>>,
): void {
  if (outcome.kind !== 'unchanged' && outcome.kind !== 'replaced') return
  const said = agent.said()
  const held = before && toldOf(before)
  if (held && said.some((one) => one.unchanged && contradict(one.tokens, held))) {
    const isWalked = said.some(({ unchanged }) => !unchanged)
    assert.ok(isWalked, '"unchanged" was believed of a version that is not held')
  }
  if (outcome.kind === 'unchanged') {
    assert.deepEqual(heldRows(outcome.held), heldRows(before), 'unchanged, and other rows')
    return
  }
  const pass = lastPass(said)
  assert.deepEqual(heldRows(outcome.held), eachOnce(pass), 'not what the last pass showed')
  for (const [n, page] of pass.entries()) {
    for (const other of pass.slice(n + 1)) {
      assert.ok(!contradict(page.tokens, other.tokens), 'rows of two versions in one walk')
    }
  }
}

test('whatever a feed does while it is read, what is held is one version of it', async (t) => {
  const kinds = new Map<string, number>()
  await proven(
    t,
    RUNS,
    fc.asyncProperty(anySteps, async (steps) => {
      const agent = createAgent()
      const { time, held, read } = startMirror(agent)
      for (const { change, misdeed, minutes } of steps) {
        agent.change(change)
        time.advance(minutes * MINUTE)
        const result = await read(misdeed)
        kinds.set(result.outcome.kind, (kinds.get(result.outcome.kind) ?? 0) + 1)
        check(agent, result)
      }
      // A day later, and once more for what was doubted, the agent's word is believed.
      for (const wait of [25 * 60, 1]) {
        time.advance(wait * MINUTE)
        check(agent, await read({ kind: 'none' }))
      }
      assert.deepEqual(heldRows(held()), agent.current().rows, 'it is not what the agent has')
    }),
  )
  t.comment(JSON.stringify([...kinds]))
  for (const kind of ['unchanged', 'replaced', 'failed']) t.ok((kinds.get(kind) ?? 0) > RUNS / 2, kind)
})

test('an agent that never lied is not suspected of it, whatever came between', async (t) => {
  let looks = 0
  await proven(
    t,
    RUNS,
    fc.asyncProperty(honestSteps, async (steps) => {
      const agent = createAgent()
      const { time, read } = startMirror(agent)
      for (const { change, misdeed, minutes } of steps) {
        agent.change(change)
        time.advance(minutes * MINUTE)
        const result = await read(misdeed)
        check(agent, result)
        if (result.outcome.kind !== 'unchanged' || misdeed.kind !== 'none') continue
        const pages = agent.said().filter(({ unchanged }) => !unchanged)
        if (pages.length === agent.said().length) continue // it was not asked whether anything had changed
        looks += pages.length
        assert.ok(pages.length <= 2, `it was read in full: ${pages.length} pages`)
      }
    }),
  )
  t.ok(looks > RUNS / 2, `${looks} pages were looked at`)
})
