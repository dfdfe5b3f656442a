/**
 * Reads the bytes of an adagents.json: a document with its tables, a pointer to one, or nothing usable
 * (docs/protocol.md#provider-files; schema adagents.json).
 */

import { hash } from 'node:crypto'
import { isRecord, measure } from '../../adcp/json.js'
import { canonicalUrl } from '../../adcp/url.js'
import { instantOf } from './entry.js'
import { makeTables, type RuleTables } from './tables.js'

/** Deeper than any honest file, and shallow enough that a recursive reader cannot overflow its stack. */
const MAX_DEPTH = 64
/**
 * Ten times as many as 50,000 full definitions have. Parsing 20 MB of brackets would take seconds and half a gigabyte.
 */
const MAX_CONTAINERS = 2_000_000
const MAX_VALIDATOR = 255 // schema adagents.json, catalog_etag

export type Inspection =
  | { kind: 'document'; digest: string; lastUpdated?: number; catalogEtag?: string; tables: RuleTables }
  | { kind: 'pointer'; target: string }
  | { kind: 'bad_pointer'; message: string }
  | { kind: 'invalid'; message: string }

/** What is wrong with the structure of the text, found before a parser allocates anything for it. */
function buildProblem(bytes: Uint8Array): string | undefined {
  const { depth, containers } = measure(bytes)
  if (depth > MAX_DEPTH) return `the file nests deeper than ${MAX_DEPTH} levels`
  return containers > MAX_CONTAINERS
    ? `the file has more than ${MAX_CONTAINERS} lists and objects`
    : undefined
}

/** The parsed text, or what is wrong with it. A byte order mark is accepted, another encoding is not. */
function parseJson(bytes: Uint8Array): { value: unknown } | { message: string } {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return { message: 'the file is not UTF-8' } // the decoder's message names no cause
  }
  try {
    return { value: JSON.parse(text) }
  } catch {
    // The parser's message quotes the file, so it is not used: our messages hold no untrusted text.
    return {
      message: text.trimStart().startsWith('<') ? 'the file is HTML, not JSON' : 'the file is not JSON',
    }
  }
}

/** A pointer is followed only to an absolute https url. */
function pointerTo(location: unknown, field: string): Inspection {
  const target = typeof location === 'string' ? canonicalUrl(location) : undefined
  if (target?.startsWith('https://')) return { kind: 'pointer', target }
  return { kind: 'bad_pointer', message: `${field} is not an https url` }
}

function validator(value: unknown): string | undefined {
  return typeof value === 'string' && value.length > 0 && value.length <= MAX_VALIDATOR ? value : undefined
}

/** What the bytes say. Pure; accepts any bytes, in linear time. */
export function inspect(bytes: Uint8Array): Inspection {
  const problem = buildProblem(bytes)
  if (problem) return { kind: 'invalid', message: problem }
  const parsed = parseJson(bytes)
  if ('message' in parsed) return { kind: 'invalid', message: parsed.message }
  const file = parsed.value
  if (!isRecord(file)) return { kind: 'invalid', message: 'the file is not a JSON object' }
  if (file.authoritative_location != null) {
    return pointerTo(file.authoritative_location, 'authoritative_location')
  }
  // A superseded file asks not to be used any more and names its successor, which is used.
  if (file.superseded_by != null) return pointerTo(file.superseded_by, 'superseded_by')
  const { authorized_agents } = file
  if (!Array.isArray(authorized_agents)) {
    return { kind: 'invalid', message: 'authorized_agents is not an array' }
  }
  return {
    kind: 'document',
    digest: hash('sha256', bytes, 'base64url'),
    lastUpdated: instantOf(file.last_updated),
    catalogEtag: validator(file.catalog_etag),
    tables: makeTables({ ...file, authorized_agents }, bytes),
  }
}
