/**
 * Opaque, tamper-evident places in a page walk (docs/decisions.md#snapshots-and-versions). A cursor says which
 * snapshot and after which signal; what it is bound to (query, scope, caller) is not in it but in its signature, so
 * it works nowhere else.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { KEY_BYTES } from '../merge/identity.js'

export type Place = {
  readonly snapshot: string
  /** The key of the last signal given. */
  readonly after: Uint32Array
}

const SNAPSHOT_BYTES = 22 // a digest's text (feed/digest.ts)
const MAC_BYTES = 16
const CURSOR_BYTES = KEY_BYTES + SNAPSHOT_BYTES + MAC_BYTES

/** Signs with a secret that all replicas share, so that a cursor survives a restart and works on every one. */
export function createCursors(secret: string | Uint8Array) {
  const mac = (body: Uint8Array, binding: string) =>
    createHmac('sha256', secret).update(body).update(binding).digest().subarray(0, MAC_BYTES)

  function write({ snapshot, after }: Place, binding: string): string {
    const body = Buffer.alloc(KEY_BYTES + SNAPSHOT_BYTES)
    after.forEach((word, at) => {
      body.writeUInt32BE(word, at * 4)
    })
    body.write(snapshot, KEY_BYTES, 'latin1')
    return Buffer.concat([body, mac(body, binding)]).toString('base64url')
  }

  /** Undefined for anything that was not written here for the same binding. */
  function read(cursor: string, binding: string): Place | undefined {
    const bytes = Buffer.from(cursor, 'base64url')
    if (bytes.byteLength !== CURSOR_BYTES || bytes.toString('base64url') !== cursor) return undefined
    const body = bytes.subarray(0, KEY_BYTES + SNAPSHOT_BYTES)
    if (!timingSafeEqual(bytes.subarray(body.byteLength), mac(body, binding))) return undefined
    const after = Uint32Array.from({ length: KEY_BYTES / 4 }, (_, word) => body.readUInt32BE(word * 4))
    return { snapshot: body.toString('latin1', KEY_BYTES), after }
  }

  return { write, read }
}
