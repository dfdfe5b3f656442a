/**
 * What an answer lacks for another reason than a decision (specification, "IncompleteEntry"): upstreams that are not
 * fresh, rows whose provider could not be asked, an account that has not been read, registries that do not answer. The
 * reasons are a closed list of ours. Error texts of upstreams are left out, because we cannot vouch for them.
 */
import { firstOf } from '../adcp/answer.js'
import { type Duration, durationOf } from '../adcp/signal-requests.js'
import type { Undecided } from '../authz/rules/verdict.js'
import type { UpstreamFailure } from '../upstreams/agent/agent.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import { PARTS, type Part } from '../upstreams/rows/slice.js'
import type { Gap } from './query.js'

export type IncompleteEntry = {
  scope: 'signals' | 'pricing' | 'wholesale_feed'
  description: string
  estimated_wait?: Duration
}

/** A registry whose listing cannot be read now. */
type SilentRegistry = {
  url: string
  /** Undefined while it has never answered: the agents that it lists are unknown. */
  reason?: UpstreamFailure
  /** Ids of the upstreams that are read only because of its last listing. */
  upstreams: readonly string[]
}

/** The state of the upstreams at this moment. */
export type Health = {
  /** Of the public scopes, one per upstream. */
  statuses(): readonly UpstreamStatus[]
  /** Of an account's scopes. */
  statusesOf(account: string): readonly UpstreamStatus[]
  silentRegistries(): readonly SilentRegistry[]
}

type Lack = {
  /** Gaps of the snapshot that the answer comes from. */
  gaps: readonly Gap[]
  health: Health
  /** The reader's account. */
  account?: string | undefined
  /** The scope that the answer would have if it were complete. */
  scope: IncompleteEntry['scope']
  now: number
}

const MOST_NAMED = 20

/** Each failure in words that anybody may see. */
export const FAILURE_WORDS: Record<UpstreamFailure, string> = {
  refused: 'our egress policy does not let us reach it',
  unresolvable: 'its host name does not resolve',
  unreachable: 'it cannot be reached',
  timeout: 'it did not answer in time',
  too_large: 'its answer was too large',
  unauthorized: 'it refuses our credentials',
  rate_limited: 'it limits how often we may ask',
  server_error: 'it answers with a server error',
  not_an_agent: 'nothing at its url speaks MCP or A2A',
  protocol_error: 'its answers cannot be read',
  agent_error: 'it answers with an error',
  account_needed: 'it answers nobody without an account that it knows',
  not_signals: 'it refuses to be asked for signals, and says that it offers something else',
  cursor_loop: 'its pages go round in a loop',
  endless_feed: 'its feed does not end',
  unstable_feed: 'its feed kept changing while it was read',
  shrunken_feed: 'most of its signals are gone from its answer, which is believed when it says so again',
  incomplete_feed: 'it says itself that its feed is not complete',
  unrepeatable: 'it would take a repetition for a second request',
  backing_off: 'it failed moments ago and is given time',
  over_memory: 'its rows take too much memory',
  aborted: 'reading it was broken off',
  unknown_upstream: 'it has left the roster',
  not_enumerable: 'its signals can only be found by questions that nobody has given us',
}

/** For provider files: why it is not known yet who may sell the provider's signals. */
const FILE_WORDS: Record<Undecided, string> = {
  pending: 'are being read',
  unreachable: 'cannot be fetched',
  bad_redirect: 'redirect to where we may not follow',
  invalid_file: 'cannot be read as such',
  too_large: 'are too large',
  bad_pointer: 'point to where we may not follow',
  held_pointer: 'are said to have moved, which is believed when it is said for a day',
  rollback: 'are older than those that were read before',
  expired: 'could not be read again for too long',
  too_many_domains: 'are not looked at, as the agents that name them name too many',
  over_budget: 'take more room than there is for them',
}

const whyOf = ({ problem }: UpstreamStatus) => (problem ? `: ${FAILURE_WORDS[problem.reason]}` : '')

/** `isCarried`: whether the answer's snapshot has its rows, which it may have before this process has read it. */
function upstreamText(status: UpstreamStatus, isCarried: boolean | undefined): string | undefined {
  const { id, state } = status
  if (state === 'starting')
    return isCarried ? undefined : `${id} has not been read yet; its signals are missing.`
  if (state === 'absent') return `${id} is absent${whyOf(status)}; its signals are missing.`
  if (isCarried === false) return `${id} was read after this was put together; its signals are missing.`
  return state === 'stale'
    ? `${id} is stale${whyOf(status)}; its signals are as they were last read.`
    : undefined
}

const PART_WORDS: Record<Part, string> = { pricing: 'prices', coverage: 'coverage estimates' }

type PartGap = Extract<Gap, { kind: 'part' }>

/** `gap`: what the rows of the answer lack, whatever the upstream gives now. */
function outageText(
  { id, outages }: UpstreamStatus,
  part: Part,
  gap: PartGap | undefined,
): string | undefined {
  const words = PART_WORDS[part]
  const lastGiven = outages?.[part]
  if (lastGiven === 0)
    return `${id} cannot give its ${words} at the moment, and gave none before that still stand.`
  if (gap && !gap.stands)
    return `The ${words} of ${id} were read after this was put together; they are missing.`
  if (lastGiven !== undefined)
    return `${id} cannot give its ${words} at the moment; those that it last gave stand.`
  return gap && `${id} could not give its ${words} when this was put together; those that it last gave stand.`
}

/** By the upstream (canonical agent url). */
type PartGaps = ReadonlyMap<string, readonly PartGap[]>

function partGaps(gaps: readonly Gap[]): PartGaps {
  const found = new Map<string, PartGap[]>()
  for (const gap of gaps) {
    if (gap.kind === 'part') found.set(gap.agentUrl, [...(found.get(gap.agentUrl) ?? []), gap])
  }
  return found
}

/**
 * The protocol has an incomplete scope for prices and none for coverage, so missing coverage is reported under the
 * scope of the answer.
 */
function outageTexts(
  status: UpstreamStatus,
  parts: PartGaps,
): [IncompleteEntry['scope'] | undefined, string][] {
  const gaps = parts.get(status.agentUrl)
  if (!status.outages && !gaps) return [] // checked first, because every answer asks this of every upstream
  return PARTS.flatMap((part) => {
    const gap = gaps?.find((each) => each.part === part)
    const text = outageText(status, part, gap)
    return text ? [[part === 'pricing' ? part : undefined, text]] : []
  })
}

/** An account's own rows replace what the upstream offers to everybody. */
function withRows(
  everybody: readonly UpstreamStatus[],
  accounts: readonly UpstreamStatus[],
): Iterable<UpstreamStatus> {
  const own = accounts.filter(({ listings }) => listings > 0)
  return own.length === 0
    ? everybody
    : new Map([...everybody, ...own].map((status) => [status.agentUrl, status])).values()
}

/** In the schema's scopes: neither the rows that are offered to the account nor its prices are known. */
function accountTexts(status: UpstreamStatus): [IncompleteEntry['scope'] | undefined, string][] {
  const { id } = status
  const why = whyOf(status)
  return [
    [
      undefined,
      `What ${id} offers to this account has not been read${why}; what it offers to everybody stands in its place.`,
    ],
    [
      'pricing',
      `The prices of ${id} for this account (scope account) are not known${why}; its rate card stands in their place.`,
    ],
  ]
}

function registryText({ url, reason, upstreams }: SilentRegistry): string {
  const { host } = new URL(url)
  if (!reason) return `The registry ${host} has not answered yet; agents that only it lists are missing.`
  const says =
    reason === 'shrunken_feed'
      ? 'lists few of those whom it listed before, which is believed when it says so again'
      : `lists nobody that can be used: ${FAILURE_WORDS[reason]}`
  const kept = upstreams.length > 0 ? ` ${firstOf(MOST_NAMED, upstreams)} stay on its last word alone.` : ''
  return `The registry ${host} ${says}.${kept}`
}

/** One entry per part that is missing or old; undefined when nothing is. */
export function incompleteOf({ gaps, health, account, scope, now }: Lack): IncompleteEntry[] | undefined {
  let entries: IncompleteEntry[] | undefined
  function add(of: IncompleteEntry['scope'], description: string, nextAttemptAt = now): void {
    const wait = nextAttemptAt - now
    entries ??= []
    entries.push({ scope: of, description, ...(wait > 0 && { estimated_wait: durationOf(wait) }) })
  }

  const [others] = gaps.flatMap((gap) => (gap.kind === 'others' ? gap : []))
  const accounts = account === undefined ? [] : health.statusesOf(account)
  const everybody = health.statuses()
  const parts = partGaps(gaps)
  for (const status of withRows(everybody, accounts)) {
    for (const [of, outage] of outageTexts(status, parts)) add(of ?? scope, outage)
  }
  for (const status of everybody) {
    const text = upstreamText(status, others?.carried.has(status.agentUrl))
    if (text) add(scope, text, status.nextAttemptAt)
  }
  for (const gap of gaps) {
    if (gap.kind !== 'provider') continue
    const which = `${FILE_WORDS[gap.reason]}: ${firstOf(MOST_NAMED, gap.domains)}`
    add(scope, `Signals of ${gap.upstream} wait for the files of their providers, which ${which}.`)
  }
  const unread = new Set(gaps.flatMap((gap) => (gap.kind === 'account' ? gap.agentUrl : [])))
  const isOther = gaps.some(({ kind }) => kind === 'other_account')
  for (const status of accounts) {
    if (isOther || unread.has(status.agentUrl)) {
      for (const [of, text] of accountTexts(status)) add(of ?? scope, text, status.nextAttemptAt)
      continue
    }
    if (status.state === 'stale') {
      const text = `What ${status.id} offers to this account is as it was last read${whyOf(status)}.`
      add('pricing', text, status.nextAttemptAt)
    }
  }
  for (const registry of health.silentRegistries()) add(scope, registryText(registry))
  return entries
}
