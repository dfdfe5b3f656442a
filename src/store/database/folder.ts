/** The folder of an embedded storage: finds and makes it, makes renamed files last, and marks an orderly end. */
import { mkdir, open, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'

/** The absolute folder of a `storage.url`; undefined for one that is no folder, as a shared database. */
export function storageFolder(url: string): string | undefined {
  if (!url.startsWith('file:')) return undefined
  return resolve(url.slice('file:'.length).replace(/^\/\/(?=\/)/, '')) // file:///var/lib is /var/lib too
}

/** The file in it that holds the tables. */
export const databaseFile = (folder: string) => join(folder, 'tributary.db')

/** Creates the folder and its parents; an existing one is left unchanged. Rejects with the system's error. */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  const options = mode === undefined ? {} : { mode }
  try {
    await mkdir(path, { ...options, recursive: true })
  } catch {
    await mkdir(path, options) // with `recursive`, Node reports ENOENT for a read-only file system
  }
}

/** Makes the names in a folder last: a renamed file is there after a power cut only when its folder was written too. */
export async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const markOf = (file: string) => `${file}.closed`

/** The file's size and modification time; empty when there is no file. */
async function stateOf(file: string): Promise<string> {
  const found = await stat(file).catch(() => undefined)
  return found ? `${found.size} ${found.mtimeMs}` : ''
}

/**
 * Marks the file as closed in order; call it after the last write. The file is then as sound as it was when it was opened, and the
 * next start need not check it. If the disk cannot store the mark, the next start checks the file.
 */
export async function markClosed(file: string): Promise<void> {
  await writeFile(markOf(file), await stateOf(file)).catch(() => {})
}

/** Whether the file is unchanged since it was closed; removes the mark. */
export async function wasClosed(file: string): Promise<boolean> {
  const marked = await readFile(markOf(file), 'utf8').catch(() => '')
  await rm(markOf(file), { force: true }).catch(() => {})
  return marked !== '' && marked === (await stateOf(file))
}
