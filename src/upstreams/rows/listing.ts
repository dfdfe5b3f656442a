/**
 * One row as it came -> one listing, or the reason it cannot be one. Rows stand alone: a bad one never costs the page
 * (specification, "Signal"; docs/protocol.md#how-agents-differ).
 */

import { createChecks } from '../../adcp/checks.js'
import { isRecord } from '../../adcp/json.js'
import { SignalRow } from '../../adcp/signal.js'
import { bufferOf } from './json.js'
import { modernise } from './legacy.js'
import { createPruner } from './prune.js'
import type { Listing } from './slice.js'

const MAX_ROW_BYTES = 64 * 1024

/** Why a row was read and not kept; `bad_<field>` names the first field that breaks the schema. */
export type Dropped = 'too_large' | 'malformed' | 'product_scope' | 'repeated' | `bad_${string}`

export type ReadRow =
  | { kind: 'listing'; listing: Listing; bytes: Uint8Array }
  /** `row` as far as it could be read: who asks which row it was has nothing else to go by. */
  | { kind: 'dropped'; reason: Dropped; row?: Readonly<Record<string, unknown>> }

const FIELDS = new Set(Object.keys(SignalRow.properties))

// Lengths in UTF-16 units (`unicode: false`; ajv would warn): counting code points is a tenth of reading a row, and
// the bounds are ours.
const check = createChecks({ strictNumbers: true, unicode: false, logger: false })
const { conforms, errors } = check<Listing>(SignalRow)
const prune = createPruner(SignalRow)

/** Rows are bounded in bytes, and cut to known fields after this: no need to look at their nesting first. */
function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(bufferOf(bytes).toString())
  } catch {
    return undefined // counted as malformed by who asked
  }
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

export function readRow(raw: Uint8Array): ReadRow {
  if (raw.byteLength > MAX_ROW_BYTES) return { kind: 'dropped', reason: 'too_large' }
  const parsed = parse(raw)
  if (!isRecord(parsed)) return { kind: 'dropped', reason: 'malformed' }
  const row = prune(modernise(parsed))
  if (!conforms(row)) return { kind: 'dropped', reason: badField(), row: parsed }
  if (row.signal_ref?.scope === 'product') return { kind: 'dropped', reason: 'product_scope', row: parsed }
  // A row that needed nothing is kept byte for byte: stringifying it again would cost as much as parsing it.
  const bytes = row === parsed ? raw : Buffer.from(JSON.stringify(row))
  return { kind: 'listing', listing: row, bytes }
}
