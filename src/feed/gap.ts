/**
 * What a generation of the feed lacks for another reason than a decision, as it was known when it was built. Each answer
 * names the gaps of the snapshot that it comes from (specification, "IncompleteEntry").
 */
export type Gap =
  /** No row of this upstream is in the snapshot. */
  | { kind: 'upstream'; upstream: string }
  /** Rows of this upstream are withheld: these providers' files are still being read for the first time. */
  | { kind: 'provider'; upstream: string; domains: readonly string[] }
  /** What this upstream offers to the reader's account has not been read: what it offers to everybody stands in its place. */
  | { kind: 'account'; upstream: string }

/** An account's answers cannot pass for the rate card while one of its upstreams has not said what it offers to it. */
export function isUnconfirmed(gaps: readonly Gap[]): boolean {
  return gaps.some(({ kind }) => kind === 'account')
}
