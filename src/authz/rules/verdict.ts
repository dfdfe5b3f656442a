/**
 * What a provider's adagents.json says about (provider, signal, agent), and what is held of the provider that it rests on:
 * the closed vocabulary of docs/authorization.md and docs/protocol.md#provider-files. The state is plain and immutable, its bytes in
 * shared memory, so that it can be sent to the thread where merging runs. The caps are in it as one instant, so that a
 * verdict is a pure function of state and time.
 */
import type { RuleTables } from './tables.js'

const HOUR = 3_600_000
const STALE_CAP_MS = 24 * HOUR // from the first failure after the last good fetch
export const HARD_CAP_MS = 7 * 24 * HOUR // from the last good fetch, whatever happened since
export const POINTER_HOLD_MS = 24 * HOUR // how long a changed pointer must stay the same

export type Unverifiable =
  | 'no_file'
  | 'unreachable'
  | 'bad_redirect' // too many, or outside the provider's registrable domain
  | 'invalid_file'
  | 'too_large'
  | 'bad_pointer'
  | 'held_pointer' // a changed pointer is not yet stable, and no earlier file is left
  | 'rollback' // the only file offered is older than the one last held
  | 'bad_domain'
  | 'expired' // the last good file passed its hard cap
  | 'too_many_domains' // the upstreams that name it have exceeded their share of domains
  | 'over_budget' // its file exceeds its share of the memory for all files
  | 'pending' // not fetched yet

/**
 * Reasons that count as a decision: the provider itself says that there is no file, and a malformed domain cannot have
 * one. With any other reason, nobody has decided about the signals.
 */
const DECIDED = ['no_file', 'bad_domain'] as const

/** Why a withheld signal is still undecided. */
export type Undecided = Exclude<Unverifiable, (typeof DECIDED)[number]>

/** Whether with this reason nobody has decided about the signals. */
function isUndecided(reason: Unverifiable): reason is Undecided {
  return !DECIDED.some((one) => one === reason)
}

export type Unauthorized =
  | 'signal_not_published'
  | 'agent_not_listed'
  | 'agent_not_listed_for_signal'
  | 'outside_window'

export type Verdict =
  | { outcome: 'authorized'; entries: readonly number[]; countries?: readonly string[] }
  | { outcome: 'unauthorized'; reason: Unauthorized; hint?: string }
  | { outcome: 'unverifiable'; reason: Unverifiable }
  | { outcome: 'not_applicable' }

export type Policy = 'strict' | 'lenient' | 'observe'

/** Which verdicts let an offer into the feed (docs/decisions.md#trust), with an operator's exception per provider. */
export type PolicySettings = {
  readonly policy: Policy
  readonly providers: Readonly<Record<string, { readonly policy: Policy }>>
}

/** The policy in force for one provider. */
export function policyFor(settings: PolicySettings, domain: string): Policy {
  return Object.hasOwn(settings.providers, domain)
    ? (settings.providers[domain]?.policy ?? settings.policy)
    : settings.policy
}

/** Whether an offer with this verdict is published. Signals of no provider need no grant. */
export function publishable(verdict: Verdict, policy: Policy): boolean {
  if (verdict.outcome === 'authorized' || verdict.outcome === 'not_applicable') return true
  return policy === 'observe' || (policy === 'lenient' && verdict.outcome === 'unverifiable')
}

/** What each reason means and who can change it: used by `authz`, `explain` and docs/authorization.md. */
export const VERDICT_REASONS: Readonly<Record<Unauthorized | Unverifiable, string>> = {
  signal_not_published: 'the provider does not publish a signal with this id in signals[]',
  agent_not_listed: 'no entry in authorized_agents[] has the url of this agent',
  agent_not_listed_for_signal:
    "entries have the url of this agent, but none names this signal's id or one of its tags",
  outside_window: 'an entry grants this signal, but not at this time',
  no_file: 'the provider publishes no adagents.json',
  unreachable: 'the file of the provider could not be fetched',
  bad_redirect: "the file redirects too often or out of the provider's registrable domain",
  invalid_file: 'what the provider publishes is not a readable adagents.json',
  too_large: 'the file exceeds 5 MB at the well-known url or 20 MB where a pointer leads',
  bad_pointer: 'the file points to a place that is not an https url, points on, or redirects',
  held_pointer: 'a changed pointer is on hold for 24 hours, and no earlier file is held',
  rollback: 'the file is older than the one last held, and that one is gone',
  bad_domain: 'the domain of the provider is no registrable domain name',
  expired: 'the last good file is past its cap: 24 hours of failures, or 7 days unconfirmed',
  too_many_domains:
    'the agents that name this domain name more than limits.provider_domains_per_upstream allows',
  over_budget:
    'files of this registrable domain, or of all domains that its agents name, take more than their share of limits.provider_bytes',
  pending: 'the file has not been fetched yet',
}

export type HeldDocument = {
  /** The url that answered, after redirects or a pointer. */
  readonly url: string
  readonly etag?: string
  readonly lastModified?: string
  readonly catalogEtag?: string
  readonly lastUpdated?: number
  /** When these bytes arrived, ms. */
  readonly fetchedAt: number
  /** SHA-256 of the bytes: equal digests mean equal rules. */
  readonly digest: string
  /** The JSON as it came, in shared memory. */
  readonly bytes: Uint8Array
  /** The tables made from it, ready for verdicts. */
  readonly tables: RuleTables
}

/** A changed pointer that is watched but not followed yet (docs/protocol.md#provider-files). */
type HeldPointer = { readonly url: string; readonly since: number; readonly adoptAt: number }

type Problem = {
  readonly reason: Unverifiable
  readonly message: string
  /** First time in this unbroken run of failures, ms. */
  readonly since: number
  /**
   * True for a fault, which keeps the last good document for a while. False when the provider says that there is no
   * file.
   */
  readonly passing: boolean
}

export type ProviderState = {
  readonly domain: string
  readonly document?: HeldDocument
  /** When there is a document: the instant at which it stops proving anything. */
  readonly expiresAt?: number
  /** Last time the document was fetched or confirmed, ms. */
  readonly confirmedAt?: number
  readonly heldPointer?: HeldPointer
  readonly problem?: Problem
  readonly nextAttemptAt?: number
}

/** The url of a file or a pointer for people: without its query, which may hold a credential for the file. */
export function shownFileUrl(url: string): string {
  return url.replace(/\?.*/s, '?…')
}

/** When a document last confirmed at `confirmedAt` stops proving anything, given the failure since then, if any. */
export function expiryOf(confirmedAt: number, problem: Problem | undefined): number {
  const hard = confirmedAt + HARD_CAP_MS
  return problem ? Math.min(hard, problem.since + STALE_CAP_MS) : hard
}

/** Why the provider proves nothing at `now`; undefined while a document is in force. */
export function silence(
  { document, expiresAt = 0, problem }: ProviderState,
  now: number,
): Unverifiable | undefined {
  if (!document) return problem?.reason ?? 'pending'
  return now < expiresAt ? undefined : 'expired'
}

/** The same, only for reasons that leave the provider's signals undecided; undefined when somebody has decided. */
export function undecided(state: ProviderState, now: number): Undecided | undefined {
  const reason = silence(state, now)
  return reason && isUndecided(reason) ? reason : undefined
}
