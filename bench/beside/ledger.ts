/** What was measured of two builds, round by round, and what may be said of it. Less is better in every row. */
import { middle, rounded } from '../report.js'

export const SIDES = ['before', 'after'] as const
export type Side = (typeof SIDES)[number]

/** `ratio`: after against before, the middle of the rounds; `low` and `high`: the rounds that differ most from it. */
export type Compared = {
  what: string
  unit: string
  before: number
  after: number
  ratio: number
  low: number
  high: number
  verdict: 'better' | 'as good' | 'worse'
}

/** Below this, what every round says is still no difference that a caller could notice. */
const LEAST_DIFFERENCE = 0.05

/** Better or worse is what every round says: one that says otherwise is within what the machine makes of two equals. */
function verdictOf(ratios: readonly number[]): Compared['verdict'] {
  const isClear = Math.abs(middle(ratios) - 1) > LEAST_DIFFERENCE
  if (isClear && ratios.every((ratio) => ratio > 1)) return 'worse'
  if (isClear && ratios.every((ratio) => ratio < 1)) return 'better'
  return 'as good'
}

/** The rows as a Markdown table. */
export function tableOf(rows: readonly Compared[]): string {
  const lines = rows.map(({ what, unit, before, after, ratio, low, high, verdict }) => {
    const spread = `${ratio.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`
    return `| ${what} | ${rounded(before)} ${unit} | ${rounded(after)} ${unit} | ${spread} | ${verdict} |`
  })
  return [
    '| what | before | after | after / before, middle (all rounds) | after is |',
    '|---|---|---|---|---|',
    ...lines,
  ].join('\n')
}

/** Runs both sides so many times, each as often first as second: what the first leaves to the other is shared by both. */
export async function inTurns(
  rounds: number,
  run: (side: Side, round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    for (const side of round % 2 === 0 ? SIDES : SIDES.toReversed()) await run(side, round)
  }
}

export type Ledger = ReturnType<typeof createLedger>

/** `note` takes what one side measured in one round; the nth of one side is compared with the nth of the other. `tell`: at once. */
export function createLedger(tell: (line: string) => void) {
  const noted = new Map<string, { unit: string; of: Record<Side, number[]> }>()
  return {
    note(side: Side, what: string, unit: string, value: number): void {
      const row = noted.get(what) ?? { unit, of: { before: [], after: [] } }
      noted.set(what, row)
      row.of[side].push(value)
      tell(`${side.padEnd(8)} ${what}: ${rounded(value)} ${unit}`)
    },
    /** The rows in the order in which they were first measured; one that only one side has is left out. */
    compared(): Compared[] {
      return [...noted].flatMap(([what, { unit, of }]) => {
        const rounds = Math.min(of.before.length, of.after.length)
        if (rounds === 0) return []
        const ratios = of.before
          .slice(0, rounds)
          .map((was, at) => (of.after[at] === was ? 1 : (of.after[at] as number) / was))
        return {
          ...{ what, unit, before: middle(of.before), after: middle(of.after), ratio: middle(ratios) },
          ...{ low: Math.min(...ratios), high: Math.max(...ratios), verdict: verdictOf(ratios) },
        }
      })
    },
  }
}
