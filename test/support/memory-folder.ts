/**
 * Where the files of a run lie: in memory, where the system keeps such a folder and it has room. Tests make, sync and remove
 * thousands of databases and blobs, with every promise of the database kept; a disk took a twentieth of the processor's time
 * for that, and made them wait.
 */
import { chmodSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const IN_MEMORY = '/dev/shm' // on Linux
const ROOM = 1_024 ** 3 // bytes: four times what a run takes
const EVERYBODY_PASSES = 0o711 // PostgreSQL runs as another user

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY)
    return bavail * bsize > ROOM
  } catch {
    return false // there is none on this system
  }
}

/** From now on, this process and those that it starts make their temporary folders in one in memory, which goes with it. */
export function keepFilesInMemory(): void {
  if (!hasRoom()) return
  process.env.TRIBUTARY_TEST_DISK = tmpdir()
  const folder = mkdtempSync(join(IN_MEMORY, 'tributary-tests-'))
  chmodSync(folder, EVERYBODY_PASSES)
  process.env.TMPDIR = folder
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
}

/** For temporary folders that have to be on a disk. */
export const diskFolder = () => process.env.TRIBUTARY_TEST_DISK ?? tmpdir()
