/**
 * Where activation keys stand in the listings of a signal, so that a reader who may see one gets a copy of those bytes.
 * Parsing a listing for its keys would cost more than all the rest of a row (docs/performance.md). A key stays in the
 * listing, which is private: it is copied nowhere else.
 */
import { bufferOf, endOfValue } from '../adcp/json.js'
import type { MergedDeployment } from './deployments.js'

/** Which of the listings, and where in its bytes. */
export type KeySpan = { readonly listing: number; readonly start: number; readonly bytes: number }

const NAME = Buffer.from('"activation_key":')
// A snapshot keeps both in 16 bits (snapshot/table.ts). A larger number would come to stand for another listing.
const MOST_BYTES = 0xffff // a longer key has no span
const MOST_LISTINGS = 0x10000 // a key in a later listing has no span

/** Adds what follows each name in a listing, by its text. A name in a string of a stranger adds what is nobody's key. */
function gather(row: Uint8Array, listing: number, found: Map<string, KeySpan>): void {
  const text = bufferOf(row)
  for (let at = text.indexOf(NAME); at >= 0; at = text.indexOf(NAME, at)) {
    const start = at + NAME.byteLength
    at = endOfValue(text, start)
    if (at - start > MOST_BYTES) continue
    const json = text.toString('utf8', start, at)
    if (!found.has(json)) found.set(json, { listing, start, bytes: at - start })
  }
}

/**
 * The span of each deployment's key; undefined where it has none, or where no listing writes it as we would. `rows`: the
 * listings' bytes. A span holds exactly the key's JSON, so it does not matter which deployment it was found at.
 */
export function keySpans(
  deployments: readonly Pick<MergedDeployment, 'activationKey'>[],
  rows: () => readonly Uint8Array[],
): (KeySpan | undefined)[] {
  if (!deployments.some(({ activationKey }) => activationKey)) return []
  const found = new Map<string, KeySpan>()
  for (const [at, row] of rows().slice(0, MOST_LISTINGS).entries()) gather(row, at, found)
  return deployments.map(({ activationKey }) => activationKey && found.get(JSON.stringify(activationKey)))
}
