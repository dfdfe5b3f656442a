/**
 * What a caller's idempotency key stands for: one request and, once there is one, its answer
 * (specification, "Authentication" 6; schema signals/activate-signal-request, `idempotency_key`).
 */
import type { Db } from './schema.js'

/** Keys are remembered this long after their first use; capabilities say the same as `replay_ttl_seconds`. */
export const REPLAY_TTL_MS = 24 * 60 * 60 * 1_000

export type KeyedRequest = {
  caller: string
  key: string
  task: string
  /** Hash of the canonical request; the account is part of it. */
  fingerprint: string
}

export type Binding =
  | { kind: 'fresh' } // this call bound the key
  | { kind: 'open' } // bound to this very request, which has no final answer yet
  | { kind: 'answered'; answer: unknown }
  | { kind: 'conflict' } // bound to another request

export type Idempotency = {
  /** Binds the key to the request, or tells what it is bound to. One of two racing callers gets `fresh`. */
  bind(request: KeyedRequest): Promise<Binding>
  /** Keeps the final answer for replays. */
  answer(caller: string, key: string, answer: unknown): Promise<void>
  /** Frees a key whose request was refused before anything was done. */
  release(caller: string, key: string): Promise<void>
  /** Forgets keys that are past their time; a request without an answer keeps its key. */
  forgetExpired(): Promise<void>
}

export function createIdempotency(db: Db, now: () => number): Idempotency {
  async function bind({ caller, key, task, fingerprint }: KeyedRequest): Promise<Binding> {
    const at = now()
    await db
      .deleteFrom('idempotency')
      .where('caller', '=', caller)
      .where('key', '=', key)
      .where('expires_at', '<=', at)
      .where('answer', 'is not', null)
      .execute()
    const inserted = await db
      .insertInto('idempotency')
      .values({
        caller,
        key,
        task,
        fingerprint,
        answer: null,
        created_at: at,
        expires_at: at + REPLAY_TTL_MS,
      })
      .onConflict((conflict) => conflict.columns(['caller', 'key']).doNothing())
      .executeTakeFirst()
    if (inserted.numInsertedOrUpdatedRows === 1n) return { kind: 'fresh' }
    const held = await db
      .selectFrom('idempotency')
      .select(['task', 'fingerprint', 'answer'])
      .where('caller', '=', caller)
      .where('key', '=', key)
      .executeTakeFirst()
    // Released between the two statements by the request that held it: nothing was done under it.
    if (!held) return bind({ caller, key, task, fingerprint })
    if (held.task !== task || held.fingerprint !== fingerprint) return { kind: 'conflict' }
    return held.answer === null ? { kind: 'open' } : { kind: 'answered', answer: JSON.parse(held.answer) }
  }

  async function answer(caller: string, key: string, value: unknown): Promise<void> {
    await db
      .updateTable('idempotency')
      .set({ answer: JSON.stringify(value) })
      .where('caller', '=', caller)
      .where('key', '=', key)
      .execute()
  }

  async function release(caller: string, key: string): Promise<void> {
    await db
      .deleteFrom('idempotency')
      .where('caller', '=', caller)
      .where('key', '=', key)
      .where('answer', 'is', null)
      .execute()
  }

  async function forgetExpired(): Promise<void> {
    await db
      .deleteFrom('idempotency')
      .where('expires_at', '<=', now())
      .where('answer', 'is not', null)
      .execute()
  }

  return { bind, answer, release, forgetExpired }
}
