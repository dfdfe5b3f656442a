/**
 * A document's tables as parts for a storage, and back: a process that finds them need not read the document again
 * before it can give verdicts.
 */
import { isRecord } from '../../adcp/json.js'
import { bytesOf, sharedBytes } from '../../upstreams/rows/slab.js'
import type { RuleTables } from './tables.js'

/**
 * Raise this number when the same document gives other tables: those that an earlier release saved are then made again. A
 * test fails when the tables change and this number does not.
 */
export const TABLES_FORM = 1

const ARRAYS = {
  Uint8Array: (bytes: SharedArrayBuffer) => new Uint8Array(bytes),
  Uint32Array: (bytes: SharedArrayBuffer) => new Uint32Array(bytes),
  Float64Array: (bytes: SharedArrayBuffer) => new Float64Array(bytes),
}

/** Stands in the header for an array, which is a part of its own. */
type Place = { array: keyof typeof ARRAYS; part: number }

const isPlace = (value: Record<string, unknown>): value is Place => 'array' in value && 'part' in value

function withArrays(value: unknown, parts: readonly Uint8Array[]): unknown {
  if (!isRecord(value)) return value
  if (isPlace(value)) return ARRAYS[value.array](sharedBytes(parts[value.part] as Uint8Array))
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withArrays(member, parts)]))
}

/** First a header in JSON, then the arrays. */
export function tableParts(tables: RuleTables): Uint8Array[] {
  const arrays: Uint8Array[] = []
  const header = JSON.stringify({ form: TABLES_FORM, tables }, (_name, value: unknown) => {
    if (!ArrayBuffer.isView(value)) return value
    arrays.push(bytesOf(value))
    return { array: value.constructor.name, part: arrays.length }
  })
  return [Buffer.from(header), ...arrays]
}

/** Over shared memory; undefined when there are none, or those of another form. */
export function tablesFrom(parts: readonly Uint8Array[]): RuleTables | undefined {
  const [header] = parts
  if (!header) return undefined
  const { form, tables } = JSON.parse(Buffer.from(header).toString()) as { form: number; tables: RuleTables }
  // Another release may have arrays that are not known here, so its form is looked at first.
  return form === TABLES_FORM ? (withArrays(tables, parts) as RuleTables) : undefined
}
