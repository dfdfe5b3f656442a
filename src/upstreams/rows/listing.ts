/**
 * One row as it came -> one listing, or the reason it cannot be one. This is the only place where a row's bytes get
 * their meaning: they are parsed once, a row that could be read in two ways is refused, and what is kept is written
 * from what was validated. Rows stand alone: a bad one never costs the page (specification, "Signal").
 */

import { bufferOf, countMembers, isRecord, measure } from '../../adcp/json.js'
import { SignalRow } from '../../adcp/signal.js'
import { createChecks } from '../../adcp/validation.js'
import { modernise } from './legacy.js'
import { createPruner } from './prune.js'
import type { Listing } from './slice.js'
import { isWritten, writeListing } from './written.js'

/** The largest row that is read when nothing else is said. */
export const ROW_BYTES = 256 * 1024
const MAX_DEPTH = 32 // the protocol's deepest field stands at nine

/** Why a row was read and not kept; `bad_<field>` names the first field that breaks the schema. */
export type Dropped =
  | 'too_large'
  | 'too_deep'
  | 'malformed'
  | 'duplicate_member'
  | 'control_characters'
  | 'product_scope'
  | 'repeated'
  | 'holds_secret'
  | `bad_${string}`

type ReadRow =
  /** `bytes`: the listing as it is kept. `isPlural`: its segment came under the oldest name, `signals_agent_segment_id`. */
  | { kind: 'listing'; listing: Listing; bytes: Buffer; isPlural: boolean }
  /** `row` as far as it could be read, so that a person can tell which row it was. */
  | { kind: 'dropped'; reason: Dropped; row?: Readonly<Record<string, unknown>> }

const FIELDS = new Set(Object.keys(SignalRow.properties))
// Control characters and halves of surrogate pairs. Tab and line breaks stand in honest descriptions; U+0000 and a half
// pair no database takes, and the others steer terminals.
// biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these are looked for
const BAD_TEXT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]|\p{Surrogate}/u

// Lengths in UTF-16 units (`unicode: false`; ajv would warn): counting code points is a tenth of reading a row, and
// the bounds are ours.
const check = createChecks({ strictNumbers: true, unicode: false, logger: false })
const { conforms, errors } = check<Listing>(SignalRow)
const prune = createPruner(SignalRow)

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(bufferOf(bytes).toString())
  } catch {
    return undefined // the caller counts it as malformed
  }
}

/** Looks at texts and at names: what came in an escape may be either. */
function hasBadText(value: unknown): boolean {
  if (typeof value === 'string') return BAD_TEXT.test(value)
  if (Array.isArray(value)) return value.some(hasBadText)
  if (!isRecord(value)) return false
  return Object.entries(value).some(([name, held]) => BAD_TEXT.test(name) || hasBadText(held))
}

/** A closed set of words: whatever an agent sends, the reasons stay countable. */
function badField(): Dropped {
  for (const { instancePath, keyword, params } of errors()) {
    const named =
      instancePath === '' && keyword === 'required'
        ? String(params.missingProperty)
        : instancePath.split('/')[1]
    if (named !== undefined && FIELDS.has(named)) return `bad_${named}`
  }
  return 'bad_row'
}

/** `maxBytes`: of the row as it came. */
export function readRow(raw: Uint8Array, maxBytes = ROW_BYTES): ReadRow {
  if (raw.byteLength > maxBytes) return { kind: 'dropped', reason: 'too_large' }
  const { depth, members, escaped } = measure(raw)
  if (depth > MAX_DEPTH) return { kind: 'dropped', reason: 'too_deep' }
  const parsed = parse(raw)
  if (!isRecord(parsed)) return { kind: 'dropped', reason: 'malformed' }
  // `JSON.parse` keeps the last of two members of one name; whoever reads the bytes otherwise may take the first.
  if (countMembers(parsed) !== members) return { kind: 'dropped', reason: 'duplicate_member', row: parsed }
  const row = prune(modernise(parsed))
  if (!conforms(row)) return { kind: 'dropped', reason: badField(), row: parsed }
  if (escaped && hasBadText(row)) return { kind: 'dropped', reason: 'control_characters', row: parsed }
  if (row.signal_ref?.scope === 'product') return { kind: 'dropped', reason: 'product_scope', row: parsed }
  const isAsWritten = row === parsed && !escaped && isWritten(raw)
  return {
    kind: 'listing',
    listing: row,
    isPlural: parsed.signal_agent_segment_id === undefined,
    bytes: isAsWritten ? bufferOf(raw) : Buffer.from(writeListing(row)),
  }
}
