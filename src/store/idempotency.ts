/**
 * What a caller's idempotency key stands for: one request and, once there is one, its answer
 * (specification, "Authentication" 6; schema signals/activate-signal-request, `idempotency_key`).
 */
import type { Db } from './schema.js'
import type { Seal } from './seal.js'

/** Keys are remembered this long after their first use unless an operator sets another time; capabilities tell it. */
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
  | { kind: 'open'; since: number } // bound to this very request, which has no final answer yet
  | { kind: 'answered'; answer: unknown }
  | { kind: 'conflict' } // bound to another request

export type Idempotency = {
  /** What the key is bound to; undefined when it is free. Binds nothing. */
  find(request: KeyedRequest): Promise<Exclude<Binding, { kind: 'fresh' }> | undefined>
  /** Binds the key to the request, or tells what it is bound to. One of two racing callers gets `fresh`. */
  bind(request: KeyedRequest): Promise<Binding>
  /** Keeps the final answer for replays. */
  answer(caller: string, key: string, answer: unknown): Promise<void>
  /** Frees a key whose request was refused before anything was done. */
  release(caller: string, key: string): Promise<void>
  /** Forgets up to so many keys that are past their time; a request with an open job keeps its key. Gives how many. */
  forgetExpired(limit: number): Promise<number>
}

export function createIdempotency(
  db: Db,
  now: () => number,
  seal: Seal,
  answersMs = REPLAY_TTL_MS,
): Idempotency {
  async function find({ caller, key, task, fingerprint }: KeyedRequest) {
    const held = await db
      .selectFrom('idempotency')
      .select(['task', 'fingerprint', 'answer', 'created_at', 'expires_at'])
      .where('caller', '=', caller)
      .where('key', '=', key)
      .executeTakeFirst()
    if (!held || (held.answer !== null && held.expires_at <= now())) return undefined
    if (held.task !== task || held.fingerprint !== fingerprint) return { kind: 'conflict' } as const
    if (held.answer === null) return { kind: 'open', since: held.created_at } as const
    return { kind: 'answered', answer: seal.read(held.answer) } as const
  }

  async function bind(request: KeyedRequest): Promise<Binding> {
    const { caller, key, task, fingerprint } = request
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
        expires_at: at + answersMs,
      })
      .onConflict((conflict) => conflict.columns(['caller', 'key']).doNothing())
      .executeTakeFirst()
    if (inserted.numInsertedOrUpdatedRows === 1n) return { kind: 'fresh' }
    // Released between the two statements by the request that held it: nothing was done under it.
    return (await find(request)) ?? (await bind(request))
  }

  async function answer(caller: string, key: string, value: unknown): Promise<void> {
    await db
      .updateTable('idempotency')
      .set({ answer: seal.write(value) })
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

  async function forgetExpired(limit: number): Promise<number> {
    const past = db
      .selectFrom('idempotency')
      .select(['caller', 'key'])
      .where('expires_at', '<=', now())
      .where((eb) =>
        eb.not(
          eb.exists(
            eb
              .selectFrom('jobs')
              .select('jobs.id')
              .whereRef('jobs.caller', '=', 'idempotency.caller')
              .whereRef('jobs.key', '=', 'idempotency.key')
              .where('jobs.due', 'is not', null),
          ),
        ),
      )
      .orderBy('expires_at')
      .limit(limit)
    const { numDeletedRows } = await db
      .deleteFrom('idempotency')
      .where((eb) => eb(eb.refTuple('caller', 'key'), 'in', past.$asTuple('caller', 'key')))
      .executeTakeFirst()
    return Number(numDeletedRows)
  }

  return { find, bind, answer, release, forgetExpired }
}
