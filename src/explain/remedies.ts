/**
 * Every reason in words for people: what it means, and the setting or the person that can change it. The same in the start
 * table, the console, explain, check and the log (docs/upstreams.md and docs/authorization.md have them in full).
 */
import type { Unauthorized, Unverifiable } from '../authz/rules/verdict.js'
import type { UpstreamFailure } from '../upstreams/agent/agent.js'

type Words = readonly [means: string, who: string]
const ITS_OPERATOR = 'whoever runs it'
const PROVIDER = 'the provider'

/** Every answer to "why": one word for machines and metrics, one sentence for people (docs/explain.md lists them). */
export const WHY = {
  present: 'it is in the feed',
  hidden_from_caller: 'it is in the feed, but this caller may read nothing here',
  filtered_out: 'it is in the feed, but the filters, destinations or countries of this request leave it out',
  not_authorized: 'no offer of it may be published under the policy in force: each offer says why',
  no_country_left: 'provider, grant and row together allow no country',
  no_room:
    "that upstream's offer gives way: its signal's offers are more than one row may hold, and it lists most",
  outranked: "that upstream's offer gives way: an authorized offer of the same signal is there",
  offer_unknown: 'the signal is in the feed, but no upstream offers it under this handle, or at this price',
  refused_row: 'the upstream sends a row for it that cannot be kept',
  withdrawn: 'the upstream that offered it does not list it any more',
  not_for_account: 'it is offered to everybody, but not to this account',
  not_offered: 'its provider publishes it, but no upstream that is read offers it',
  upstream_excluded: 'the upstream that may offer it is kept out of the roster',
  upstream_left: 'the upstream that offered it has left the roster',
  upstream_absent: 'the upstream that may offer it gives no rows now',
  upstream_starting: 'the upstream that may offer it has not been read yet',
  nothing_published: 'the upstream is read, but none of its rows may be published',
  starting: 'the first snapshot is still being built',
  unknown: 'nothing that is read now, and nothing seen since the start, goes by this name',
} as const

export type Why = keyof typeof WHY

/** Of a failure of an upstream, or of a registry: what it means, and what or who can change it. */
export const FAILURES: Readonly<Record<UpstreamFailure, Words>> = {
  refused: [
    'it is at an address that may not be called',
    'egress.allow_networks, egress.hosts, or https at a public address',
  ],
  unresolvable: ['its name has no address', 'its DNS, or the url where it is listed'],
  unreachable: [
    'no connection can be made to it',
    `${ITS_OPERATOR}; for a private certificate authority NODE_EXTRA_CA_CERTS`,
  ],
  timeout: [
    'it does not answer in time',
    `defaults.timeout, limits.walk_time for a whole feed, or ${ITS_OPERATOR}`,
  ],
  too_large: ['its answer is too large', `limits.page_bytes, defaults.page_size, or ${ITS_OPERATOR}`],
  unauthorized: [
    'it does not take our credential, or asks for one',
    'auth of its entry under upstreams, or headers under registries; an account under callers',
  ],
  rate_limited: ['it is asked too often', `${ITS_OPERATOR}; it is asked again when it says`],
  server_error: ['it answers that it has failed', ITS_OPERATOR],
  not_an_agent: [
    'no agent answers at its url',
    'its url: an entry under upstreams with the right one stands above a registry',
  ],
  protocol_error: ['its answer has a form that cannot be read', ITS_OPERATOR],
  agent_error: ['it refuses to tell its feed', ITS_OPERATOR],
  account_needed: [
    'it answers accounts that it knows, and nobody else',
    `callers.keys[].accounts, with an account that it knows; a public listen.public_url, by which it may know this agent; or ${ITS_OPERATOR}`,
  ],
  not_signals: [
    'it says itself that it offers no signals',
    `exclude: true on its entry under upstreams, if it sells something else; or ${ITS_OPERATOR} or lists it`,
  ],
  incomplete_feed: ['it says itself that its feed is not complete', ITS_OPERATOR],
  cursor_loop: ['its pages lead in a circle', ITS_OPERATOR],
  endless_feed: ['its feed has more rows than may be read', `limits.rows_per_upstream, or ${ITS_OPERATOR}`],
  over_memory: ['there is no memory left for its rows', 'limits.memory'],
  unstable_feed: ['its feed kept changing while it was read', ITS_OPERATOR],
  shrunken_feed: [
    'most of what it listed is gone',
    'nobody has to: a second answer that says the same is believed',
  ],
  not_enumerable: [
    'it has no feed to read, only answers to questions',
    `${ITS_OPERATOR}, by a wholesale feed; seeds of its entry under upstreams; or providers that authorize it`,
  ],
  backing_off: ['it failed moments ago', 'time: its next probe is due soon'],
  unrepeatable: [
    'it may have had the call, and would not know it again',
    `${ITS_OPERATOR}: idempotency keys`,
  ],
  aborted: ['who asked gave up', 'nobody'],
  unknown_upstream: ['there is no such upstream', 'an entry under upstreams'],
}

/** Why an agent that is listed is not in the roster. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  excluded: 'the configuration or an operator leaves it out',
  not_included: 'discovery.include names none of its records',
  not_verified:
    'discovery.verified_only asks for a verification badge, and none of its records that are included has one',
  secret_in_url:
    'its url holds what looks like a credential; an entry under upstreams is called with it, and known without it',
  too_many: 'registries list more agents than are read; an entry under upstreams lets it in',
}

/** Of a provider's file, or of one offer: what it means, and who can change it. */
const VERDICTS: Readonly<
  Record<Unverifiable | Unauthorized | 'outranked' | 'no_room' | 'no_country_left', Words>
> = {
  no_file: ['the provider publishes no adagents.json', PROVIDER],
  unreachable: ["the provider's file could not be had", `${PROVIDER}, or egress`],
  bad_redirect: ["the provider's file redirects too often or elsewhere", PROVIDER],
  invalid_file: ["the provider's file cannot be read", PROVIDER],
  too_large: ["the provider's file is too large", PROVIDER],
  bad_pointer: ["the provider's file points where it may not", PROVIDER],
  held_pointer: ["the provider's file points elsewhere since less than a day", 'time, or tributary authz'],
  rollback: ["the provider's file is older than the last one", PROVIDER],
  bad_domain: ['the row names no domain of a provider', 'the agent'],
  expired: ["the provider's last good file is too old", PROVIDER],
  too_many_domains: [
    'the agent names too many providers',
    'the agent, or limits.provider_domains_per_upstream',
  ],
  over_budget: ["the provider's file takes more than its share", `${PROVIDER}, or limits.provider_bytes`],
  pending: ["the provider's file has not been fetched yet", 'time'],
  signal_not_published: ["the provider's file has no such signal", `${PROVIDER}, or the agent`],
  agent_not_listed: ["the provider's file does not name the agent", PROVIDER],
  agent_not_listed_for_signal: ["the provider's file does not name the agent for this signal", PROVIDER],
  outside_window: ["the provider's grant does not hold now", PROVIDER],
  outranked: ['it gives way to an authorized offer of the same signal', 'nobody has to'],
  no_room: ['the offers of its signal are more than one row may hold, and the agent lists most', 'the agent'],
  no_country_left: ['provider, grant and row together allow no country', `${PROVIDER}, or the agent`],
}

type Problem = { readonly reason: string; readonly message: string }

function wordsIn(table: Readonly<Record<string, Words>>, reason: string): Words | undefined {
  return Object.hasOwn(table, reason) ? table[reason] : undefined
}

function inOneLine({ reason, message }: Problem, words: Words | undefined): string {
  return `${reason}: ${message}${words ? ` [${words[1]}]` : ''}`
}

/** A failure of an upstream or a registry in one line: the word, what came back, and what can change it. */
export function problemText(problem: Problem): string {
  return inOneLine(problem, wordsIn(FAILURES, problem.reason))
}

/** The same for a page: `means` is the word in words, `message` what came back, `remedy` what or who can change it. */
export type ToldProblem = { reason: string; means: string; message: string; remedy: string }

/** A failure of an upstream, of an account there or of a registry, in words for a page. */
export function toldProblem({
  reason,
  message,
}: Problem & { readonly reason: UpstreamFailure }): ToldProblem {
  const [means, remedy] = FAILURES[reason]
  return { reason, means, message, remedy }
}

/** Why an agent is left out, in words. */
export const leftOutText = (reason: string): string => LEFT_OUT[reason] ?? reason

/** What a reason of a provider's file, or of a withheld offer, means, and who can change it. */
export function verdictWords(reason: string): Words | undefined {
  return wordsIn(VERDICTS, reason)
}

/** What is wrong with a provider's file, in one line. */
export function fileProblemText(problem: Problem): string {
  return inOneLine(problem, verdictWords(problem.reason))
}

/** Offers that are not published, counted by their reason. */
function withheldText(reason: string, count: number): string {
  const [means, who] = verdictWords(reason) ?? []
  return `${count} withheld, ${reason}${means ? `: ${means} [${who}]` : ''}`
}

/** Why an upstream gives no more than it gives, in one line: for the start table, the console, explain and `check`. */
type Shortfall = {
  problem?: Problem | undefined
  /** How many withheld rows for which reason. */
  withheld: Iterable<readonly [reason: string, count: number]>
  hint?: string | undefined
  /** What an operator should know of it beside that. */
  notes: readonly string[]
  /** Rows that were read and not kept, by reason. */
  dropped: Readonly<Record<string, number>>
}

/** Empty when there is nothing to explain. */
export function whyNotMore({ problem, withheld, hint, notes, dropped }: Shortfall): string {
  return [
    ...(problem ? [problemText(problem)] : []),
    ...[...withheld].map(([reason, count]) => withheldText(reason, count)),
    ...(hint ? [hint] : []),
    ...notes,
    ...Object.entries(dropped).map(([reason, count]) => `${count} dropped: ${reason} [${ITS_OPERATOR}]`),
  ].join('; ')
}
