/**
 * Nonces of signatures that were used, for processes that serve one address together: whichever of them a signature reaches
 * first remembers it for all. PostgreSQL only; a process alone remembers its own (signing/replay.ts).
 */
import type { Db } from './database/schema.js'

const FORGET_EVERY_MS = 60_000

export type Nonces = {
  /** Remembers a nonce of a key until then, seconds since the epoch; false when it was used before. */
  take(key: string, nonce: string, until: number): Promise<boolean>
}

export function createNonces(db: Db, now: () => number): Nonces {
  let forgottenAt = 0

  async function forgetOld(): Promise<void> {
    if (now() < forgottenAt + FORGET_EVERY_MS) return
    forgottenAt = now()
    await db
      .deleteFrom('nonces')
      .where('until', '<', Math.floor(now() / 1_000))
      .execute()
  }

  async function take(key: string, nonce: string, until: number): Promise<boolean> {
    await forgetOld()
    const { numInsertedOrUpdatedRows } = await db
      .insertInto('nonces')
      .values({ key, nonce, until })
      .onConflict((conflict) => conflict.columns(['key', 'nonce']).doNothing())
      .executeTakeFirst()
    return numInsertedOrUpdatedRows === 1n
  }

  return { take }
}
