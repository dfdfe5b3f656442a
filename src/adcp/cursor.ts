/**
 * Opaque cursors (specification, "Pagination"). A signed one is bound to what it was given for (the query, the caller),
 * which is not in it but in its signature, so it works nowhere else. A plain one tells only whoever may read the list
 * anyway where the next page begins.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'

const MAC_BYTES = 16

/** Undefined for a text that no encoder writes. */
function bytesOf(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url')
  return bytes.toString('base64url') === text ? bytes : undefined
}

/** Whoever has the secret reads the cursors: replicas that share it read one another's. */
export function createSignedCursors(secret: string | Uint8Array) {
  const mac = (body: Uint8Array, binding: string) =>
    createHmac('sha256', secret).update(body).update(binding).digest().subarray(0, MAC_BYTES)

  return {
    write: (body: Uint8Array, binding: string): string =>
      Buffer.concat([body, mac(body, binding)]).toString('base64url'),
    /** The body; undefined for anything that was not written with this secret, for this binding. */
    read(text: string, binding: string): Buffer | undefined {
      const bytes = bytesOf(text)
      if (!bytes || bytes.byteLength < MAC_BYTES) return undefined
      const body = bytes.subarray(0, -MAC_BYTES)
      return timingSafeEqual(bytes.subarray(-MAC_BYTES), mac(body, binding)) ? body : undefined
    },
  }
}

/** Cursors of the list `name`; those of another are not read. */
export function plainCursors(name: string) {
  const prefix = `${name}.`
  return {
    write: (place: string): string => Buffer.from(prefix + place).toString('base64url'),
    read(text: string): string | undefined {
      const place = bytesOf(text)?.toString()
      return place?.startsWith(prefix) ? place.slice(prefix.length) : undefined
    },
  }
}
