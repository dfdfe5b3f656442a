import type { Undecided } from '../authz/rules/verdict.js'
import type { Part } from '../upstreams/rows/slice.js'

/**
 * What a generation of the feed lacks for another reason than a decision, as it was known when it was built. Each answer
 * names the gaps of the snapshot that it comes from (specification, "IncompleteEntry"). Upstreams are known by their canonical
 * urls: they may go by another id when the answer is given.
 */
export type Gap =
  /** Rows of these upstreams are in the snapshot, and of no other, whoever has come since. */
  | { kind: 'others'; carried: ReadonlySet<string> }
  /** Rows of this upstream are withheld, and nobody has decided so: these providers' files could not be read. */
  | { kind: 'provider'; agentUrl: string; upstream: string; reason: Undecided; domains: readonly string[] }
  /** Rows of this upstream are without this part, which it gave too long ago. */
  | { kind: 'part'; agentUrl: string; part: Part }
  /** What this upstream offers to the reader's account has not been read: what it offers to everybody stands in its place. */
  | { kind: 'account'; agentUrl: string }
  /** The reader's account is not the one any more that the snapshot was put together for. */
  | { kind: 'other_account' }

/** An account's answers cannot pass for the rate card while one of its upstreams has not said what it offers to it. */
export function isUnconfirmed(gaps: readonly Gap[]): boolean {
  return gaps.some(({ kind }) => kind === 'account')
}
