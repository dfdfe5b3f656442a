/**
 * Places in a page walk (docs/decisions.md#snapshots-and-versions): which snapshot, and after which signal. What a
 * cursor is bound to (query, scope, caller) is in its signature.
 */
import { createSignedCursors } from '../adcp/cursor.js'
import { KEY_BYTES } from '../merge/identity.js'

export type Place = {
  readonly snapshot: string
  /** The key of the last signal given. */
  readonly after: Uint32Array
}

const PLACE_BYTES = KEY_BYTES + 22 // the text of a digest (snapshot/digest.ts)

/** Signs with a secret that all replicas share, so that a cursor survives a restart and works on every one. */
export function createCursors(secret: string | Uint8Array) {
  const signed = createSignedCursors(secret)

  function write({ snapshot, after }: Place, binding: string): string {
    const body = Buffer.alloc(PLACE_BYTES)
    after.forEach((word, at) => {
      body.writeUInt32BE(word, at * 4)
    })
    body.write(snapshot, KEY_BYTES, 'latin1')
    return signed.write(body, binding)
  }

  /** Undefined for anything that was not written here for the same binding. */
  function read(cursor: string, binding: string): Place | undefined {
    const body = signed.read(cursor, binding)
    if (body?.byteLength !== PLACE_BYTES) return undefined
    const after = Uint32Array.from({ length: KEY_BYTES / 4 }, (_, word) => body.readUInt32BE(word * 4))
    return { snapshot: body.toString('latin1', KEY_BYTES), after }
  }

  return { write, read }
}
