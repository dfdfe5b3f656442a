/** The nonces of signatures that were received, so that none is taken twice. */
import type { Db } from '../database/database.js'

const FORGET_NONCES_EVERY_MS = 60_000

export type Nonces = {
  /** Stores a nonce of a key until `until`, in seconds since the epoch; false when it was used before. */
  take(key: string, nonce: string, until: number): Promise<boolean>
}

/**
 * The process that receives a signature first stores its nonce for all; one that is alone keeps them in memory
 * (signing/verify.ts). `now`: ms since the epoch.
 */
export function createNonces(db: Db, now: () => number): Nonces {
  let forgottenAt = 0

  async function forgetOld(): Promise<void> {
    if (now() < forgottenAt + FORGET_NONCES_EVERY_MS) return
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
