/**
 * Opaque cursors (specification, "Pagination"). They are signed, and bound to the query and the caller that they were given to,
 * which are part of the signature and not of the cursor. So a cursor works nowhere else. That of a page walk says in which
 * snapshot it is and after which signal the next page begins (docs/decisions.md#snapshots-and-versions), that of another list
 * only where its next page begins.
 */
import { createHmac, createSecretKey, timingSafeEqual } from 'node:crypto'
import { KEY_BYTES, keyAt } from '../merge/keys.js'
import { createRecent } from '../process/memory.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { CacheScope, Criteria, Reader } from './query.js'

const MAC_BYTES = 16
const PLACE_BYTES = KEY_BYTES + 22 // the text of a digest (snapshot/digests.ts)
const REMEMBERED = 2_000
const SCOPES: readonly CacheScope[] = ['public', 'account']

/** Where a page of a walk begins. */
type Place = {
  readonly snapshot: string
  /** The key of the last signal on the page before. */
  readonly after: Uint32Array
}

/** A walk under way: where it is, and the scope in which it began. */
export type Begun = { readonly place: Place; readonly scope: CacheScope }

/** Undefined for a text that no encoder writes. */
function bytesOf(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url')
  return bytes.toString('base64url') === text ? bytes : undefined
}

/** Cursors are valid for every process with the secret: replicas that share it accept one another's. */
export function createSignedCursors(secret: string | Uint8Array) {
  const key = typeof secret === 'string' ? createSecretKey(secret, 'utf8') : createSecretKey(secret)
  const mac = (body: Uint8Array, binding: string) =>
    createHmac('sha256', key).update(body).update(binding).digest().subarray(0, MAC_BYTES)

  return {
    write: (body: Uint8Array, binding: string): string =>
      Buffer.concat([body, mac(body, binding)]).toString('base64url'),
    /** The body; undefined unless it was written with this secret and for this binding. */
    read(text: string, binding: string): Buffer | undefined {
      const bytes = bytesOf(text)
      if (!bytes || bytes.byteLength < MAC_BYTES) return undefined
      const body = bytes.subarray(0, -MAC_BYTES)
      return timingSafeEqual(bytes.subarray(-MAC_BYTES), mac(body, binding)) ? body : undefined
    },
  }
}

/** Cursors of the list `name`: they hold the place where the next page begins, and are bound to what was `asked`. */
export function createListCursors(secret: string | Uint8Array, name: string) {
  const signed = createSignedCursors(secret)
  const bindingOf = (asked: object, caller: string) => JSON.stringify([name, asked, caller])
  return {
    write: (place: string, asked: object, caller: string): string =>
      signed.write(Buffer.from(place), bindingOf(asked, caller)),
    /** The place; undefined unless it was written for the same list, question and caller. */
    read: (text: string, asked: object, caller: string): string | undefined =>
      signed.read(text, bindingOf(asked, caller))?.toString(),
  }
}

/** What a cursor is bound to: the query, the caller, and the scope of the walk. */
function bindingOf(
  { asked }: Criteria,
  { caller, visibility, account = '' }: Reader,
  scope: CacheScope,
): string {
  return JSON.stringify([asked, caller, visibility, account, ...(scope === 'public' ? [] : [scope])])
}

function placeBytes({ snapshot, after }: Place): Buffer {
  const body = Buffer.allocUnsafe(PLACE_BYTES)
  after.forEach((word, at) => {
    body.writeUInt32BE(word, at * 4)
  })
  body.write(snapshot, KEY_BYTES, 'latin1')
  return body
}

function placeFrom(body: Buffer): Place {
  const after = Uint32Array.from({ length: KEY_BYTES / 4 }, (_, word) => body.readUInt32BE(word * 4))
  return { snapshot: body.toString('latin1', KEY_BYTES), after }
}

/**
 * Signs with a secret that all replicas share, so that a cursor survives a restart and works on every one. What a genuine one
 * says is remembered: whoever walks sends the cursor that was just written. So is what was written: pages are polled all day.
 * A second signature for each page made one that nobody asked for before a seventh slower: each is an object outside the heap.
 */
export function createCursors(secret: string | Uint8Array) {
  const signed = createSignedCursors(secret)
  const known = createRecent<Place>(REMEMBERED)
  const written = createRecent<string>(REMEMBERED)
  // The length keeps apart what a caller sends and what it is bound to.
  const nameOf = (cursor: string, binding: string) => `${cursor.length} ${cursor} ${binding}`

  /** Undefined unless it was written for the same binding. */
  function read(cursor: string, binding: string): Place | undefined {
    const name = nameOf(cursor, binding)
    const found = known.get(name)
    if (found) return found
    const body = signed.read(cursor, binding)
    if (body?.byteLength !== PLACE_BYTES) return undefined
    const place = placeFrom(body)
    known.set(name, place)
    return place
  }

  return {
    /** The position after the entry `last` in a walk. */
    after(
      { id, keys }: Snapshot,
      last: number,
      criteria: Criteria,
      reader: Reader,
      scope: CacheScope,
    ): string {
      const binding = bindingOf(criteria, reader, scope)
      const name = `${id} ${last} ${binding}`
      const before = written.get(name)
      if (before !== undefined) return before
      const place = { snapshot: id, after: keyAt(keys, last) }
      const cursor = signed.write(placeBytes(place), binding)
      known.set(nameOf(cursor, binding), place)
      written.set(name, cursor)
      return cursor
    },
    /** Where a walk is and in which scope it began; undefined when this query and caller were given no such cursor. */
    begun(cursor: string, criteria: Criteria, reader: Reader): Begun | undefined {
      for (const scope of reader.account === undefined ? SCOPES.slice(0, 1) : SCOPES) {
        const place = read(cursor, bindingOf(criteria, reader, scope))
        if (place) return { place, scope }
      }
      return undefined
    },
  }
}
