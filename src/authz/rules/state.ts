/**
 * What is held of one provider, in the form that is sent to the thread where merging runs: plain, immutable, its bytes
 * in shared memory. The caps of docs/protocol.md#provider-files are in it as one instant, so that a verdict is a pure
 * function of state and time.
 */
import type { RuleTables } from './tables.js'
import { isUndecided, type Undecided, type Unverifiable } from './verdict.js'

const HOUR = 3_600_000
const STALE_CAP_MS = 24 * HOUR // from the first failure after the last good fetch
export const HARD_CAP_MS = 7 * 24 * HOUR // from the last good fetch, whatever happened since
export const POINTER_HOLD_MS = 24 * HOUR // how long a changed pointer must stay the same

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
  readonly checkedAt?: number
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
