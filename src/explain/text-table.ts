/** A table of texts that fits the terminal: the widest column is cut first. */

import { forTerminal } from '../adcp/redaction.js'

const GAP = '  '

function fitted(widths: number[], room: number): number[] {
  const result = [...widths]
  for (let over = sum(result) - room; over > 0; over -= 1) {
    const widest = result.indexOf(Math.max(...result))
    if ((result[widest] as number) <= 8) break
    result[widest] = (result[widest] as number) - 1
  }
  return result
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

function cut(text: string, width: number): string {
  return text.length <= width ? text.padEnd(width) : `${text.slice(0, width - 1)}…`
}

/** Lines with a header. What strangers wrote in a cell steers no terminal. */
export function renderTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  width: number,
): string {
  const cells = [header, ...rows].map(forTerminal)
  const natural = header.map((_, column) => Math.max(...cells.map((row) => (row[column] ?? '').length)))
  const widths = fitted(natural, width - GAP.length * (header.length - 1))
  return cells
    .map((row) =>
      widths
        .map((each, column) => cut(row[column] ?? '', each))
        .join(GAP)
        .trimEnd(),
    )
    .join('\n')
}

/** The width to draw for: what COLUMNS says, else the terminal's. What goes to a file or a pipe is cut nowhere. */
export function tableWidth(stream: { isTTY?: boolean; columns?: number }): number {
  const asked = Number(process.env.COLUMNS)
  if (asked > 0) return asked
  return stream.isTTY && stream.columns ? stream.columns : Number.POSITIVE_INFINITY
}
