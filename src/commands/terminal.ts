/**
 * The terminal: option values as the commands want them, where a wrong one is named with what was expected; exit codes
 * (docs/operations.md); the one way a command ends badly, a sentence that says what to do next; a line that says how far
 * it is; and a table that fits the width, the widest column cut first.
 */
import { InvalidArgumentError } from 'commander'
import { forTerminal } from '../adcp/redaction.js'
import { parseDuration } from '../config/quantities.js'

const REDRAW_MS = 100
const GAP = '  '

/** Reads whole numbers from `minimum` to `maximum`, both included. Throws `InvalidArgumentError` for any other text. */
export function wholeNumber(minimum: number, maximum: number) {
  return (text: string): number => {
    const number = Number(text)
    if (Number.isInteger(number) && number >= minimum && number <= maximum) return number
    throw new InvalidArgumentError(`expected a whole number from ${minimum} to ${maximum}`)
  }
}

/** The object that a JSON text is. Throws `InvalidArgumentError` for any other text. */
export function jsonObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (value && typeof value === 'object' && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {
    // reported below, with what was expected
  }
  throw new InvalidArgumentError('expected a JSON object such as {"catalog_types":["marketplace"]}')
}

/** `a,b` as a list without empty names. */
export function names(text: string): string[] {
  const list = text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  if (list.length > 0) return list
  throw new InvalidArgumentError('expected names with commas between them')
}

/** Reads one of the words. Throws `InvalidArgumentError` for any other text. */
export function oneOf<W extends string>(words: readonly W[]) {
  return (text: string): W => {
    const word = words.find((each) => each === text)
    if (word !== undefined) return word
    throw new InvalidArgumentError(`expected ${words.join(', ')}`)
  }
}

/** An http or https url, as it is written. */
export function httpUrl(text: string): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text
  throw new InvalidArgumentError('expected an http or https url')
}

/** An https url, as it is written. */
export function httpsUrl(text: string): string {
  if (URL.canParse(text) && new URL(text).protocol === 'https:') return text
  throw new InvalidArgumentError('expected an https url')
}

/** A folder, or PostgreSQL: a url of anything else would name a folder that nobody means. */
export function copyPlace(text: string): string {
  if (!/^[a-z][a-z\d+.-]*:\/\//i.test(text) || /^postgres(ql)?:/.test(text)) return text
  throw new InvalidArgumentError('expected a folder or postgres://...')
}

/** A time such as `30s` or `5m` in ms, a second at least. */
export function duration(text: string): number {
  const ms = /^\d+(ms|s|m|h|d)$/.test(text) ? parseDuration(text) : 0
  if (ms >= 1_000) return ms
  throw new InvalidArgumentError('expected a time of at least a second, such as 30s or 5m')
}

/** The moment of a date (ISO 8601); NaN for a day that no calendar has, which `Date` takes for one of the next month. */
function dateOf(text: string): number {
  const [day = ''] = /^\d{4}-\d\d-\d\d(?=T|$)/.exec(text) ?? []
  const begin = Date.parse(day)
  const isThere = Number.isFinite(begin) && new Date(begin).toISOString().startsWith(day)
  return isThere ? Date.parse(text) : Number.NaN
}

/** A moment as ms since the epoch: a date, or how long ago (`90m`, `24h`, `7d`). */
export function moment(now: () => number) {
  return (text: string): number => {
    const ms = /^\d+[mhd]$/.test(text) ? now() - parseDuration(text) : dateOf(text)
    if (Number.isFinite(ms)) return ms
    throw new InvalidArgumentError('expected a date such as 2026-11-20 or an age such as 24h')
  }
}

/** `platform:NAME` or `agent:URL`, as a destination of the protocol. */
export function destination(text: string): { type: string } {
  const [, type, place = ''] = /^(platform|agent):(.+)$/.exec(text) ?? []
  if (type === 'platform') return { type, ...{ platform: place } }
  if (type === 'agent' && URL.canParse(place)) return { type, ...{ agent_url: place } }
  throw new InvalidArgumentError('expected platform:NAME or agent:URL')
}

/** Exit codes (docs/operations.md). */
export const EXIT = { failed: 1, usage: 2, config: 3, incomplete: 4 } as const

/** A failure whose message is for the person at the terminal; anything else that is thrown is a bug. */
export class CommandFailure extends Error {
  constructor(
    message: string,
    readonly exitCode: number = EXIT.failed,
  ) {
    super(message)
    this.name = 'CommandFailure'
  }
}

/** One line on a terminal that says how far a long command is; silent where there is no terminal. */
type Progress = { show(text: string): void; done(): void }

/** Draws at most every 100 ms. */
export function createProgress(stream: NodeJS.WriteStream, now: () => number): Progress {
  if (!stream.isTTY) return { show: () => {}, done: () => {} }
  let drawnAt = Number.NEGATIVE_INFINITY
  return {
    show(text) {
      if (now() - drawnAt < REDRAW_MS) return
      drawnAt = now()
      stream.write(`\r\u001b[K${text.slice(0, (stream.columns || 80) - 1)}`)
    },
    done() {
      stream.write('\r\u001b[K')
    },
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

function fitted(widths: number[], room: number): number[] {
  const result = [...widths]
  for (let over = sum(result) - room; over > 0; over -= 1) {
    const widest = result.indexOf(Math.max(...result))
    if ((result[widest] as number) <= 8) break
    result[widest] = (result[widest] as number) - 1
  }
  return result
}

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
