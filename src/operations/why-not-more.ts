/** Why an upstream gives no more than it gives, in one line: for the start table, the console and `check`. */

type Problem = { readonly reason: string; readonly message: string }

export type Shortfall = {
  problem?: Problem | undefined
  /** How many withheld rows for which reason. */
  withheld: Iterable<readonly [reason: string, count: number]>
  hint?: string | undefined
  /** What an operator should know of it beside that. */
  notes: readonly string[]
  /** Rows that were read and not kept, by reason. */
  dropped: Readonly<Record<string, number>>
}

export function problemText({ reason, message }: Problem): string {
  return `${reason}: ${message}`
}

/** Empty when there is nothing to explain. */
export function whyNotMore({ problem, withheld, hint, notes, dropped }: Shortfall): string {
  return [
    ...(problem ? [problemText(problem)] : []),
    ...[...withheld].map(([reason, count]) => `${count} ${reason}`),
    ...(hint ? [hint] : []),
    ...notes,
    ...Object.entries(dropped).map(([reason, count]) => `${count} dropped: ${reason}`),
  ].join('; ')
}
