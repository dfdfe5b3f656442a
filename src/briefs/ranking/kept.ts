/**
 * Answers that are kept for their further pages. An answer keeps the order of its signals, not their content: a page
 * shows each signal as the feed has it then. Bounded in number, per caller and in all, and in time. An answer that
 * another process on the same storage began is found there.
 */
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { createSignedCursors } from '../../feed/cursor.js'
import type { Shelf } from '../../store/replicas/shelf.js'
import { type KeptAnswer, orderFrom, orderOf } from './order.js'

const KEEP_MS = 15 * 60_000
const MOST = 2_000
const MOST_A_CALLER = 50
const ID_BYTES = 12

type KeptOptions = {
  /** In ms. */
  now(): number
  /** What cursors are signed with: the same for all processes that share answers. */
  secret: string | Uint8Array
  /** Where other processes find them; absent: there are none. */
  shared?: Pick<Shelf, 'keep' | 'find'>
}

/** Cursors are bound to a text (the caller and its question). */
export function createKept({ now, secret, shared }: KeptOptions) {
  const cursors = createSignedCursors(secret)
  const callers = new Map<string, Set<string>>()
  const answers = new LRUCache<string, KeptAnswer & { caller: string }>({
    max: MOST,
    ttl: KEEP_MS,
    perf: { now },
    ttlResolution: 0,
    dispose({ caller }, id) {
      const own = callers.get(caller)
      own?.delete(id)
      if (own?.size === 0) callers.delete(caller)
    },
  })
  const nameOf = (id: string) => Buffer.from(id, 'latin1').toString('base64url')

  /** Gives the name under which it is kept; `stored` resolves when other processes find it. Rejects as the storage does. */
  function keep(caller: string, answer: KeptAnswer): { id: string; stored: Promise<void> | undefined } {
    const id = randomBytes(ID_BYTES).toString('latin1')
    const own = callers.get(caller) ?? new Set<string>()
    callers.set(caller, own)
    own.add(id)
    answers.set(id, { ...answer, caller })
    const [oldest] = own
    if (own.size > MOST_A_CALLER && oldest !== undefined) answers.delete(oldest)
    const item = () => ({ name: nameOf(id), kind: 'answer' as const, owner: caller, bytes: orderOf(answer) })
    return { id, stored: shared?.keep([item()]) }
  }

  function cursor(id: string, from: number, binding: string): string {
    const body = Buffer.alloc(ID_BYTES + 4)
    body.write(id, 'latin1')
    body.writeUInt32BE(from, ID_BYTES)
    return cursors.write(body, binding)
  }

  async function fetched(caller: string, id: string): Promise<KeptAnswer | undefined> {
    const found = await shared?.find('answer', caller, nameOf(id))
    return found && orderFrom(found.bytes)
  }

  /**
   * Undefined for a cursor of another binding, or when its answer is gone. Rejects when the storage had to be asked and
   * does not answer.
   */
  async function find(
    text: string,
    binding: string,
    caller: string,
  ): Promise<{ id: string; answer: KeptAnswer; from: number } | undefined> {
    const body = cursors.read(text, binding)
    if (body?.byteLength !== ID_BYTES + 4) return undefined
    const id = body.toString('latin1', 0, ID_BYTES)
    const answer = answers.get(id) ?? (await fetched(caller, id))
    return answer && { id, answer, from: body.readUInt32BE(ID_BYTES) }
  }

  return { keep, cursor, find, close: () => answers.clear() }
}

export type Kept = ReturnType<typeof createKept>
