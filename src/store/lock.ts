/**
 * One process a folder. The lock is the system's own, held through an open database file, so that it ends with the
 * process however that ends: nothing is left behind that a person would have to remove.
 */
import { join } from 'node:path'
import Database from 'libsql'

const WAIT_MS = 1_000 // a predecessor that is just ending

/** Takes the folder for this process; gives how to let go of it. Throws an Error that says who has it. */
export async function lockFolder(folder: string): Promise<() => void> {
  const lock = new Database(join(folder, 'lock'), { timeout: WAIT_MS })
  try {
    lock.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    if ((error as { code?: string }).code?.startsWith('SQLITE_BUSY') !== true) throw error
    throw new Error(
      `${folder} is in use: another process works on it, and a folder is for one (docs/storage.md)`,
    )
  }
  let isHeld = true
  return () => {
    if (isHeld) lock.close() // which ends its transaction
    isHeld = false
  }
}
