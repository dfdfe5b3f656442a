/** One upstream for the person who asks why its signals are not there: who it is, how it is doing, what it gives. */

import { accountNamed } from '../config/callers.js'
import { notesOf, rowsRead, type UpstreamStatus } from '../upstreams/agent/status.js'
import type { ScopeStatus } from '../upstreams/mirror/scope-status.js'
import type { Roster, RosterEntry } from '../upstreams/roster/roster.js'
import type { RefusedRow, Slice } from '../upstreams/rows/slice.js'
import type { Contribution } from './contributions.js'
import { FAILURES } from './remedies.js'

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
  /** `remedy`: the setting or the person that can change it. */
  problem?: { reason: string; message: string; remedy?: string }
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
  /** What an operator should know of it beside that. */
  notes: readonly string[]
  /** Rows that were read and not kept. */
  dropped: Readonly<Record<string, number>>
  refused: readonly RefusedRow[]
  /** What it offers to accounts of callers. */
  accounts: readonly AccountExplanation[]
}

export type AccountExplanation = {
  caller: string
  account: string
  state: UpstreamStatus['state']
  /** It is priced as everybody is, and has no rows of its own. */
  rate_card: boolean
  rows: number
  problem?: { reason: string; message: string; remedy?: string }
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
  contributions(): readonly Contribution[]
}

export const iso = (ms: number) => new Date(ms).toISOString()

function describeAccount(status: ScopeStatus): AccountExplanation {
  const { scope, state, rateCard, listings, problem, confirmedAt, nextAttemptAt } = status
  const [caller, account] = accountNamed(scope)
  return {
    ...{ caller, account, state, rate_card: rateCard, rows: listings },
    ...(problem && { problem: { ...problem, remedy: FAILURES[problem.reason] } }),
    ...(confirmedAt && { confirmed_at: iso(confirmedAt) }),
    ...(nextAttemptAt && { next_attempt_at: iso(nextAttemptAt) }),
  }
}

function describe(entry: RosterEntry, sources: UpstreamSources): UpstreamExplanation {
  const { id, agentUrl, name, source, auth } = entry
  const status = sources.statuses().find((each) => each.id === id)
  const slice = sources.slices().find((each) => each.agentUrl === agentUrl)
  const given = sources.contributions().find((each) => each.upstream === id)
  const { protocol, mode, problem, walkedAt, confirmedAt, nextAttemptAt } = status ?? {}
  return {
    id,
    agent_url: agentUrl,
    name,
    source,
    has_credential: auth.type !== 'none',
    ...(protocol && { protocol }),
    ...(mode && { mode }),
    state: status?.state ?? 'starting',
    ...(problem && { problem: { ...problem, remedy: FAILURES[problem.reason] } }),
    ...(walkedAt && { walked_at: iso(walkedAt) }),
    ...(confirmedAt && { confirmed_at: iso(confirmedAt) }),
    ...(nextAttemptAt && { next_attempt_at: iso(nextAttemptAt) }),
    rows: status?.listings ?? 0,
    read: status ? rowsRead(status) : '0',
    published: given?.published ?? 0,
    withheld: given?.withheld ?? 0,
    reasons: Object.fromEntries(given?.reasons ?? []),
    ...(given?.hint && { hint: given.hint }),
    notes: status ? notesOf(status) : [],
    dropped: status?.dropped ?? {},
    refused: (slice?.refused ?? []).slice(0, MAX_REFUSED),
    accounts: sources
      .accountStatuses()
      .filter((each) => each.id === id)
      .map(describeAccount),
  }
}

/** The upstream of a canonical url; undefined when it is not in the roster. */
export function explainUpstream(agentUrl: string, sources: UpstreamSources): UpstreamExplanation | undefined {
  const entry = sources.roster().entries.find((each) => each.agentUrl === agentUrl)
  return entry && describe(entry, sources)
}
