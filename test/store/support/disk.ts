/** Disks in trouble: a small one in memory that fills up or turns read-only, and a folder that nothing can change. */
import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { diskFolder } from '../../support/memory-folder.js'

/** False where this user or this file system may not do it. */
function done(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: 'pipe' })
    return true
  } catch {
    return false
  }
}

export const NO_SMALL_DISK = 'skipped: this user may not mount a disk in memory (tmpfs)'

/** A folder that is a disk of its own, of some megabytes; undefined where this user may not mount one. */
export function smallDisk(t: Test, megabytes: number) {
  const folder = mkdtempSync(join(tmpdir(), 'tributary-disk-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  if (!done('mount', '-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder)) return undefined
  t.teardown(() => done('umount', '-l', folder))
  return {
    folder,
    /** Only while no file of it is open for writing: the system refuses else. */
    readOnly: () => execFileSync('mount', ['-o', 'remount,ro', folder]),
    writable: () => execFileSync('mount', ['-o', 'remount,rw', folder]),
  }
}

export const NO_FREEZING =
  'skipped: this user, or this file system, cannot make open files read-only (chattr +i)'

/** Whether a file that is open for writing can be made read-only in this folder, as a disk with an error does it. */
function canFreeze(folder: string): boolean {
  const file = join(folder, 'probe')
  const open = openSync(file, 'w')
  try {
    if (!done('chattr', '+i', file)) return false
    writeSync(open, 'x')
    return false // a file system that looks at the attribute only when a file is opened
  } catch {
    return true
  } finally {
    closeSync(open)
    done('chattr', '-i', file)
    rmSync(file)
  }
}

/**
 * A storage folder that can be made read-only and writable again while a process works on it; undefined where that cannot be
 * done. A remount would be refused: the database's files are open. The -shm file is left alone, as a disk that turned
 * read-only leaves it: it is memory that SQLite shares between processes.
 */
export function freezableFolder(t: Test) {
  const folder = mkdtempSync(join(diskFolder(), 'tributary-freeze-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  if (!canFreeze(folder)) return undefined
  const paths = ['.', 'blobs', 'tributary.db', 'tributary.db-wal'].map((name) => join(folder, name))
  const thaw = () => execFileSync('chattr', ['-i', ...paths])
  t.teardown(() => done('chattr', '-i', ...paths))
  return { folder, freeze: () => execFileSync('chattr', ['+i', ...paths]), thaw }
}
