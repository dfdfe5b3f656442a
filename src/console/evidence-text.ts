/** The lines of a provider's adagents.json that a verdict rests on, as the file has them. */
import { isRecord, tryParseJson } from '../adcp/json.js'
import type { ProviderState } from '../authz/rules/state.js'

const MOST_FILE = 1024 * 1024 // parsing more would keep others waiting
const MOST_TEXT = 4_000

/** What an RFC 6901 pointer leads to. */
function at(value: unknown, pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((from, name) => {
      return Array.isArray(from) || isRecord(from) ? (from as Record<string, unknown>)[name] : undefined
    }, value)
}

/** The JSON text of each place; empty for a file that is not held, or too large to be read for a page. */
export function evidenceTexts(
  state: ProviderState | undefined,
  pointers: readonly string[],
): { at: string; text: string }[] {
  const bytes = state?.document?.bytes
  if (!bytes || bytes.byteLength > MOST_FILE || pointers.length === 0) return []
  const file = tryParseJson(bytes)
  return [...new Set(pointers)].flatMap((pointer) => {
    const text = JSON.stringify(at(file, pointer), null, 2)
    return text === undefined ? [] : [{ at: pointer, text: text.slice(0, MOST_TEXT) }]
  })
}
