/**
 * The members of a kept listing as texts, found in one pass over its JSON: that costs a quarter of parsing it, and what
 * is published as it came needs no writing.
 */
import { SignalRow } from '../adcp/signal.js'
import { nameHash, step } from './row-writer.js'

const NAMES = Object.keys(SignalRow.properties) as (keyof SignalRow)[]
const NUMBERS = new Map(NAMES.map((name, at) => [nameHash(name), at]))
const NONE: readonly (string | undefined)[] = NAMES.map(() => undefined)

const [QUOTE, COMMA, COLON] = [0x22, 0x2c, 0x3a]
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d]
const SPACE = 0x20 // and whatever sorts below it is white space

/** The place of each member among `membersOf`. */
export const MEMBER = Object.fromEntries(NAMES.map((name, at) => [name, at])) as Readonly<
  Record<keyof SignalRow, number>
>

/** Index after the string that opens at `at`, in a text without escapes. */
const afterString = (text: string, at: number) => text.indexOf('"', at + 1) + 1 || text.length

/** Index after the value that begins at `at`, in a text without escapes. */
function afterValue(text: string, at: number): number {
  const first = text.charCodeAt(at)
  if (first === QUOTE) return afterString(text, at)
  const isNested = first === OPEN_BRACE || first === OPEN_BRACKET
  let depth = 0
  let next = at
  while (next < text.length) {
    const code = text.charCodeAt(next)
    if (code === QUOTE) next = afterString(text, next)
    else {
      if (!isNested && (code === COMMA || code === CLOSE_BRACE || code <= SPACE)) return next
      next += 1
      if (code === OPEN_BRACE || code === OPEN_BRACKET) depth += 1
      else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth -= 1
      if (isNested && depth === 0) return next
    }
  }
  return next
}

/**
 * The value of each member, by its place in `MEMBER`. Undefined for a listing with escapes or with space between its
 * members: it is parsed instead. Strings of the others stand in the text exactly as they are written.
 */
export function membersOf(text: string): readonly (string | undefined)[] | undefined {
  if (text.includes('\\')) return undefined
  const found = NONE.slice()
  const last = text.length - 1
  let at = 0 // of the brace or comma before a member
  do {
    let hash = 0
    let end = at + 2
    for (; end < last && text.charCodeAt(end) !== QUOTE; end += 1) hash = step(hash, text.charCodeAt(end))
    const member = NUMBERS.get(hash)
    const isPlain = text.charCodeAt(at + 1) === QUOTE && text.charCodeAt(end + 1) === COLON
    if (member === undefined || !isPlain) return undefined
    at = afterValue(text, end + 2)
    found[member] = text.slice(end + 2, at)
  } while (text.charCodeAt(at) === COMMA)
  return at === last ? found : undefined
}
