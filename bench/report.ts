/**
 * How a bench tells what it measured: a line for a person as soon as it is known, and the same row to `run.ts`, which
 * prints all rows once more at the end. A row with a bar is `met` or `missed`. A missed one names what stands in the way,
 * with the measurement of it from the same run.
 */

export type Bar = { atLeast: number } | { atMost: number }

/** What the best that could be done here costs, measured in the same run and in the row's unit. */
export type Limit = { is: number; of: string }

export type Row = {
  what: string
  measured: number
  unit?: string
  bar?: Bar
  limit?: Limit
}

const WIDTH = 78

/** Three digits that mean something, and no more. */
export function rounded(value: number): string {
  if (!Number.isFinite(value)) return String(value)
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2
  return value.toFixed(digits)
}

/** The middle one; of an even number the greater of the two. */
export const middle = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN

const isMet = (measured: number, bar: Bar) =>
  'atLeast' in bar ? measured >= bar.atLeast : measured <= bar.atMost

function outcome({ measured, bar, limit }: Row): string {
  if (!bar) return ''
  const [sign, most] = 'atLeast' in bar ? ['>=', bar.atLeast] : ['<=', bar.atMost]
  const met = isMet(measured, bar) ? 'met' : 'missed'
  const why = limit ? `, limit ${rounded(limit.is)} measured: ${limit.of}` : ''
  return `  bar ${sign} ${most}: ${met}${met === 'met' ? '' : why}`
}

/** One row as a line. */
export function lineOf(row: Row): string {
  const value = `${rounded(row.measured)}${row.unit ? ` ${row.unit}` : ''}`
  return `${row.what.padEnd(WIDTH)}${value.padStart(12)}${outcome(row)}`
}

/** Prints a row, and tells it to whoever started this bench. */
export function report(row: Row): void {
  console.log(lineOf(row))
  process.send?.({ row })
}
