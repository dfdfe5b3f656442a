/** Making a folder, with the true reason when it cannot be made. */
import { mkdir } from 'node:fs/promises'

/** Makes the folder and those above it; one that is there is left as it is. Rejects with what the system says. */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  const options = mode === undefined ? {} : { mode }
  try {
    await mkdir(path, { ...options, recursive: true })
  } catch {
    await mkdir(path, options) // asked for the whole way, Node says ENOENT of a read-only file system
  }
}
