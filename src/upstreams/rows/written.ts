/**
 * How a listing is written in a slice, and how its reference is read back without parsing the row. Both stand here
 * because each is right only by the other: a row is written from what was validated, its reference first, so a row that
 * does not begin with a reference has none.
 */
import { isUtf8 } from 'node:buffer'
import { bufferOf } from '../../adcp/json.js'
import type { SignalRef } from '../../adcp/reference.js'
import type { Listing } from './slice.js'

const REF = Buffer.from('{"signal_ref":{')
const QUOTE = 0x22
const BACKSLASH = 0x5c
const CLOSE = 0x7d

function beginsWithRef(listing: Listing): boolean {
  for (const name in listing) return name === 'signal_ref'
  return false
}

/** The listing as JSON; `listing` is validated, so there is nothing in it that JSON would lose. */
export function writeListing(listing: Listing): string {
  const { signal_ref: ref } = listing
  return JSON.stringify(!ref || beginsWithRef(listing) ? listing : { signal_ref: ref, ...listing })
}

/**
 * Whether a row that was validated as it came (nothing was left out or renamed, nothing stands in escapes) can be kept as
 * it came: then its bytes say what was validated, and writing it again would cost more than parsing it did.
 */
export function isWritten(row: Uint8Array): boolean {
  for (let at = 0; at < REF.length; at += 1) if (row[at] !== REF[at]) return false
  return isUtf8(row)
}

const REF_BYTES = 640 // a provider's reference is never longer
const PROVIDERS =
  /^\{"signal_ref":\{"scope":"data_provider","data_provider_domain":"([^"\\]*)","signal_id":"([^"\\]*)"\}/

/** The reference that nearly every row begins with, to a provider's signal; undefined for any other. */
export function providersRef(text: string): SignalRef | undefined {
  const [, data_provider_domain, signal_id] = PROVIDERS.exec(text) ?? []
  if (data_provider_domain === undefined || signal_id === undefined) return undefined
  return { scope: 'data_provider', data_provider_domain, signal_id }
}

/** The reference of a row that `writeListing` wrote; undefined when it has none. */
export function writtenRef(row: Uint8Array): SignalRef | undefined {
  const bytes = bufferOf(row)
  const known = providersRef(bytes.toString('latin1', 0, REF_BYTES))
  if (known) return known
  for (let at = 0; at < REF.length; at += 1) if (row[at] !== REF[at]) return undefined
  let inString = false
  for (let at = REF.length; at < row.length; at += 1) {
    const byte = row[at]
    if (inString && byte === BACKSLASH) at += 1
    else if (byte === QUOTE) inString = !inString
    else if (byte === CLOSE && !inString) {
      // A validated reference holds nothing but strings, so this is where it ends.
      return JSON.parse(bytes.toString('utf8', REF.length - 1, at + 1)) as SignalRef
    }
  }
  return undefined
}
