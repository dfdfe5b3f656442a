/** Rules on what is sent as a credential. */
import type { AuthEntry } from '../schema.js'
import type { ConfigPath, Rule } from './broken.js'

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/ // RFC 9110, "token"
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/
/** The HTTP client sets these itself. */
const RESERVED = new Set(['connection', 'content-length', 'host', 'keep-alive', 'te', 'transfer-encoding'])

export function* headerNameRule(name: string, at: ConfigPath): Rule {
  if (!HEADER_NAME.test(name)) yield { at, expected: 'a header name', got: JSON.stringify(name) }
  else if (RESERVED.has(name.toLowerCase())) {
    yield { at, expected: 'a header that is not of the connection itself', got: JSON.stringify(name) }
  }
}

export function* headerValueRule(value: string, at: ConfigPath): Rule {
  if (!HEADER_VALUE.test(value)) yield { at, expected: 'a text that can stand in a header' }
}

/** The members that a type takes, and no other: a token beside `none` would never be sent. */
const MEMBERS: Record<AuthEntry['type'], readonly (keyof AuthEntry)[]> = {
  none: [],
  bearer: ['token'],
  header: ['name', 'value'],
}

export function* authRules(entry: AuthEntry | undefined, at: ConfigPath): Rule {
  if (!entry) return
  const taken = MEMBERS[entry.type]
  for (const member of taken) {
    if (!entry[member]) yield { at: [...at, member], expected: `a ${member}, as type is ${entry.type}` }
  }
  for (const member of ['token', 'name', 'value'] as const) {
    if (entry[member] === undefined || taken.includes(member)) continue
    yield { at: [...at, member], expected: `no ${member}, as type is ${entry.type}` }
  }
  if (entry.type === 'header' && entry.name) yield* headerNameRule(entry.name, [...at, 'name'])
  if (entry.type === 'header' && entry.value) yield* headerValueRule(entry.value, [...at, 'value'])
  if (entry.type === 'bearer' && entry.token && !HEADER_VALUE.test(entry.token)) {
    yield { at: [...at, 'token'], expected: 'a token that can stand in a header' }
  }
}
