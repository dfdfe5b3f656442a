/** Upstreams for the person who asks why signals are not there: who they are, how they are doing, what they give. */

import { shownUrl } from '../adcp/redaction.js'
import { accountNamed } from '../config/callers.js'
import { notesOf, rowsRead, type UpstreamStatus } from '../upstreams/agent/status.js'
import type { ScopeStatus } from '../upstreams/mirror/scope-status.js'
import type { Roster, RosterEntry } from '../upstreams/roster/roster.js'
import type { Part, RefusedRow, Slice } from '../upstreams/rows/slice.js'
import type { Contribution } from './contributions.js'
import { type ToldProblem, toldProblem } from './remedies.js'

const MAX_REFUSED = 20

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

/** A moment, ms since the epoch, in ISO 8601. */
export const iso = (ms: number) => new Date(ms).toISOString()

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

function describe(entry: RosterEntry, { status, slice, given, accounts }: Known): UpstreamExplanation {
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
    return describe(entry, {
      status: statuses.get(id),
      slice: slices.get(agentUrl),
      given: contributions.get(id),
      accounts: accounts.get(id) ?? [],
    })
  })
}
