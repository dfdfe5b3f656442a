/**
 * Upstreams for the person who asks why signals are not there: who they are, how they are doing, what each gave to a
 * snapshot, and what of that is not shown, with the reason. For explain, the start table, the console and metrics.
 */
import { shownUrl } from '../adcp/redaction.js'
import { iso } from '../authz/report.js'
import { type Judge, type Policy, publishable, type Verdict } from '../authz/rules/verdict.js'
import { accountNamed } from '../feed/query.js'
import { countriesOf } from '../merge/definition.js'
import { identityOf } from '../merge/identity.js'
import { createMeter, type InPortions } from '../process/portions.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import {
  notesOf,
  quirksOf,
  rowsRead,
  type ScopeStatus,
  type UpstreamStatus,
} from '../upstreams/mirror/scope-status.js'
import type { Roster, RosterEntry } from '../upstreams/roster/roster.js'
import { type Part, type RefusedRow, type Slice, sliceListing } from '../upstreams/rows/slice.js'
import { type ToldProblem, toldProblem } from './remedies.js'

const UNITS_A_ROW = 100 // a row that is parsed and judged costs as much as looking at so many signals
const LOOKED_AT = 1_000 // withheld listings per upstream whose reason is determined; the others are only counted
const MAX_REFUSED = 20

export type Contribution = {
  upstream: string
  /** Listings that are part of a published signal. */
  published: number
  withheld: number
  /** Of the withheld listings that were looked at: how many for which verdict, or which rule of merging. */
  reasons: ReadonlyMap<string, number>
  /** The difference that a near miss makes, for people (authz/rules/rules.ts). */
  hint?: string
}

/**
 * An admitted offer that is not published is displaced by an authorized offer, may be used in no country, or is too large
 * next to the others: merging drops offers for no other reason (merge/merged-signal.ts).
 */
function whyWithheld(
  verdict: Verdict,
  policy: Policy,
  isBesideOther: boolean,
  hasCountry: () => boolean,
): string {
  const isEntitled = publishable(verdict, 'strict')
  if ('reason' in verdict && !publishable(verdict, policy)) return verdict.reason
  if (!isBesideOther) return 'no_country_left'
  if (!isEntitled) return 'outranked'
  return hasCountry() ? 'no_room' : 'no_country_left'
}

type WithheldRow = {
  row: number
  /** Another offer of the same signal stands. */
  isBesideOther: boolean
}

/** One entry for each slice of the snapshot, in its order. */
export function* contributionsOf(snapshot: Snapshot, judge: Judge): InPortions<Contribution[]> {
  const meter = createMeter()
  const published = snapshot.slices.map(() => 0)
  const counts = snapshot.slices.map(() => 0)
  const withheld: WithheldRow[][] = snapshot.slices.map(() => [])
  const { at: entries, slice, row, stands } = snapshot.offers
  for (let entry = 0; entry < snapshot.count; entry += 1) {
    const [first, end] = [entries[entry] as number, entries[entry + 1] as number]
    meter.did(1 + end - first)
    if (meter.isDue()) yield
    let isBesideOther = false
    for (let offer = first; offer < end; offer += 1) if (stands[offer]) isBesideOther = true
    for (let offer = first; offer < end; offer += 1) {
      const at = slice[offer] as number
      if (stands[offer]) published[at] = (published[at] as number) + 1
      else {
        counts[at] = (counts[at] as number) + 1
        const looked = withheld[at] as WithheldRow[]
        if (looked.length < LOOKED_AT) looked.push({ row: row[offer] as number, isBesideOther })
      }
    }
  }
  const told: Contribution[] = []
  for (const [at, { slice: from }] of snapshot.slices.entries()) {
    const reasons = new Map<string, number>()
    let hint: string | undefined
    for (const { row: each, isBesideOther } of withheld[at] as WithheldRow[]) {
      meter.did(UNITS_A_ROW)
      if (meter.isDue()) yield
      const listing = sliceListing(from, each)
      const identity = identityOf(listing, from.agentUrl)
      if (identity?.kind !== 'provider') continue
      const { decide, definition, policy } = judge(identity.domain)
      const verdict = decide(identity.id, from.agentUrl)
      if (verdict.outcome === 'unauthorized') hint ??= verdict.hint
      const hasCountry = () =>
        countriesOf({ ...from, listing, verdict }, definition(identity.id))?.length !== 0
      const word = whyWithheld(verdict, policy, isBesideOther, hasCountry)
      reasons.set(word, (reasons.get(word) ?? 0) + 1)
    }
    told.push({
      upstream: from.upstream,
      published: published[at] as number,
      withheld: counts[at] as number,
      reasons,
      ...(hint && { hint }),
    })
  }
  return told
}

/** Offers that stand in a published signal, by upstream. */
export function* publishedByUpstream({ offers, shown, slices }: Snapshot): InPortions<Map<string, number>> {
  const meter = createMeter()
  const counts = new Uint32Array(slices.length)
  for (const entry of shown) {
    meter.did(1)
    if (meter.isDue()) yield
    for (let one = offers.at[entry] as number; one < (offers.at[entry + 1] as number); one += 1) {
      const from = offers.slice[one] as number
      if (offers.stands[one]) counts[from] = (counts[from] as number) + 1
    }
  }
  return new Map(slices.map(({ slice }, at) => [slice.upstream, counts[at] as number]))
}

export type UpstreamExplanation = {
  id: string
  agent_url: string
  name: string
  /** `static`, or the registry that lists it. */
  source: string
  /** Whether it is called with a credential of ours. */
  has_credential: boolean
  protocol?: string
  mode?: string
  state: UpstreamStatus['state']
  problem?: ToldProblem
  walked_at?: string
  confirmed_at?: string
  next_attempt_at?: string
  rows: number
  /** The same in words, with whether these are probably all. */
  read: string
  published: number
  withheld: number
  /** Withheld offers by verdict. */
  reasons: Readonly<Record<string, number>>
  hint?: string
  /** What is shown of it although it does not say so now. */
  carried: readonly CarriedPart[]
  /** What else an operator should know of it. */
  notes: readonly string[]
  /** How it differs from the current protocol, and how that is read. */
  quirks: readonly string[]
  /** Rows that were read and not kept. */
  dropped: Readonly<Record<string, number>>
  refused: readonly RefusedRow[]
  /** What it offers to accounts of callers. */
  accounts: readonly AccountExplanation[]
}

/** `given_at`: when the upstream last said so; absent when nothing stands in for what is missing. */
type CarriedPart = { part: 'rows' | Part; given_at?: string }

export type AccountExplanation = {
  caller: string
  account: string
  state: UpstreamStatus['state']
  /** It is priced as everybody is, and has no rows of its own. */
  rate_card: boolean
  rows: number
  problem?: ToldProblem
  confirmed_at?: string
  next_attempt_at?: string
}

export type UpstreamSources = {
  roster(): Roster
  statuses(): readonly UpstreamStatus[]
  /** Of the accounts' scopes, of all upstreams. */
  accountStatuses(): readonly ScopeStatus[]
  /** The public slices; with an account's in the place of theirs where its name is given. */
  slices(account?: string): readonly Slice[]
  contributions(): Promise<readonly Contribution[]>
}

function describeAccount(status: ScopeStatus): AccountExplanation {
  const { scope, state, rateCard, listings, problem, confirmedAt, nextAttemptAt } = status
  const [caller, account] = accountNamed(scope)
  return {
    ...{ caller, account, state, rate_card: rateCard, rows: listings },
    ...(problem && { problem: toldProblem(problem) }),
    ...(confirmedAt && { confirmed_at: iso(confirmedAt) }),
    ...(nextAttemptAt && { next_attempt_at: iso(nextAttemptAt) }),
  }
}

/** What is known of one upstream, each in its place. */
type Known = {
  status: UpstreamStatus | undefined
  slice: Slice | undefined
  given: Contribution | undefined
  accounts: readonly ScopeStatus[]
}

/** The last good rows of one that fails, and parts of rows that it does not give now, with when it last did. */
function carriedOf({ state, confirmedAt, outages = {} }: UpstreamStatus): CarriedPart[] {
  const parts = Object.entries(outages).map(([part, at]) => {
    return { part: part as Part, ...(at > 0 && { given_at: iso(at) }) }
  })
  if (state !== 'stale') return parts
  return [{ part: 'rows', ...(confirmedAt && { given_at: iso(confirmedAt) }) }, ...parts]
}

function describeUpstream(
  entry: RosterEntry,
  { status, slice, given, accounts }: Known,
): UpstreamExplanation {
  const { id, agentUrl, name, source, auth } = entry
  const { protocol, mode, problem, walkedAt, confirmedAt, nextAttemptAt } = status ?? {}
  return {
    id,
    agent_url: agentUrl,
    name,
    source: shownUrl(source),
    has_credential: auth.type !== 'none',
    ...(protocol && { protocol }),
    ...(mode && { mode }),
    state: status?.state ?? 'starting',
    ...(problem && { problem: toldProblem(problem) }),
    ...(walkedAt && { walked_at: iso(walkedAt) }),
    ...(confirmedAt && { confirmed_at: iso(confirmedAt) }),
    ...(nextAttemptAt && { next_attempt_at: iso(nextAttemptAt) }),
    rows: status?.listings ?? 0,
    read: status ? rowsRead(status) : '0',
    published: given?.published ?? 0,
    withheld: given?.withheld ?? 0,
    reasons: Object.fromEntries(given?.reasons ?? []),
    ...(given?.hint && { hint: given.hint }),
    carried: status ? carriedOf(status) : [],
    notes: status ? notesOf(status) : [],
    quirks: status ? quirksOf(status) : [],
    dropped: status?.dropped ?? {},
    refused: (slice?.refused ?? []).slice(0, MAX_REFUSED),
    accounts: accounts.map(describeAccount),
  }
}

/** The upstreams of these canonical urls, in their order, without those that the roster does not have. */
export async function explainUpstreams(
  agentUrls: readonly string[],
  sources: UpstreamSources,
): Promise<UpstreamExplanation[]> {
  if (agentUrls.length === 0) return []
  const contributions = new Map((await sources.contributions()).map((one) => [one.upstream, one]))
  const entries = new Map(sources.roster().entries.map((one) => [one.agentUrl, one]))
  const statuses = new Map(sources.statuses().map((one) => [one.id, one]))
  const slices = new Map(sources.slices().map((one) => [one.agentUrl, one]))
  const accounts = new Map<string, ScopeStatus[]>()
  for (const one of sources.accountStatuses()) accounts.set(one.id, [...(accounts.get(one.id) ?? []), one])
  return agentUrls.flatMap((agentUrl) => {
    const entry = entries.get(agentUrl)
    if (!entry) return []
    const { id } = entry
    return describeUpstream(entry, {
      status: statuses.get(id),
      slice: slices.get(agentUrl),
      given: contributions.get(id),
      accounts: accounts.get(id) ?? [],
    })
  })
}
