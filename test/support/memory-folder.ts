/**
 * Where the files of a run lie: in memory, where the system keeps such a folder and it has room. Tests make, sync and remove
 * thousands of databases and blobs, with every promise of the database kept; a disk took a twentieth of the processor's time
 * for that, and made them wait.
 */
import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const IN_MEMORY = '/dev/shm' // on Linux
const ROOM = 1_024 ** 3 // bytes: four times what a run takes
const EVERYBODY_PASSES = 0o711 // PostgreSQL runs as another user

/** Its input ends with the process that started it, however that ends; what that one started may write a little longer. */
const KEEPER = 'read -r ended; rm -rf "$1" || { sleep 5; rm -rf "$1"; }'

function folderInMemory(): string | undefined {
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY)
    return bavail * bsize > ROOM ? mkdtempSync(join(IN_MEMORY, 'tributary-tests-')) : undefined
  } catch {
    return undefined // there is none on this system, or it cannot be written
  }
}

/** From now on, this process and those that it starts make their temporary folders in one in memory, which goes with it. */
export function keepFilesInMemory(): void {
  const folder = folderInMemory()
  if (folder === undefined) return
  process.env.TRIBUTARY_TEST_DISK = tmpdir()
  chmodSync(folder, EVERYBODY_PASSES)
  process.env.TMPDIR = folder
  // In a group of its own: it is not interrupted with the others.
  const keeper = spawn('sh', ['-c', KEEPER, 'keeper', folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  keeper.unref()
}

/** For temporary folders that have to be on a disk. */
export const diskFolder = () => process.env.TRIBUTARY_TEST_DISK ?? tmpdir()
