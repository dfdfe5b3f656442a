/** Why an upstream gives no more than it gives, in one line: for the start table, the console, explain and `check`. */
import { problemText, withheldText } from './remedies.js'

export type Shortfall = {
  problem?: { readonly reason: string; readonly message: string } | undefined
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
    ...Object.entries(dropped).map(([reason, count]) => `${count} dropped: ${reason} [whoever runs it]`),
  ].join('; ')
}
