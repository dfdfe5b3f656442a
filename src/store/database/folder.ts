/** The folder of an embedded storage: made with the true reason when it cannot be, for one process, and marked when it ends in order. */
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import Database from 'libsql'

const WAIT_MS = 1_000 // a predecessor that is just ending

/** Makes the folder and those above it; one that is there is left as it is. Rejects with what the system says. */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  const options = mode === undefined ? {} : { mode }
  try {
    await mkdir(path, { ...options, recursive: true })
  } catch {
    await mkdir(path, options) // asked for the whole way, Node says ENOENT of a read-only file system
  }
}

/**
 * Takes the folder for this process; gives how to let go of it. Throws an Error that says that another has it. The lock is the
 * system's own, held through an open database file, so that it ends with the process however that ends: nothing is left
 * behind that a person would have to remove.
 */
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

const markOf = (file: string) => `${file}.closed`

/** Size and time of the last change; empty where there is no file. */
async function stateOf(file: string): Promise<string> {
  const found = await stat(file).catch(() => undefined)
  return found ? `${found.size} ${found.mtimeMs}` : ''
}

/**
 * To be called when nothing will be written any more: then the file is as sound as it was when it was opened, and the next
 * start need not look at it. A disk that does not take the mark costs a check.
 */
export async function markClosed(file: string): Promise<void> {
  await writeFile(markOf(file), await stateOf(file)).catch(() => {})
}

/** Whether nothing has touched the file since it was closed; the mark is used up. */
export async function wasClosed(file: string): Promise<boolean> {
  const marked = await readFile(markOf(file), 'utf8').catch(() => '')
  await rm(markOf(file), { force: true }).catch(() => {})
  return marked !== '' && marked === (await stateOf(file))
}
