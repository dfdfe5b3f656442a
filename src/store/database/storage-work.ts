/**
 * Units of work on the storage. A storage that cannot serve now (disk full, read-only, database gone) is distinguished from a bug:
 * callers get the first as SERVICE_UNAVAILABLE with `retry_after`; the second stays an exception. Units that arrive while others are
 * written are done together, with one statement and one commit for all of them, because a commit waits for the disk and a statement
 * is a round trip to the database.
 */
import pLimit from 'p-limit'

const MOST_TOGETHER = 128 // bounds how long one step waits for the others, and how long their statements get
const MOST_ALONE = 4 // each needs its own connection

/**
 * The storage could not serve. A unit of work was stored completely or not at all; when the answer was lost, it is
 * unknown which.
 */
export class StorageUnavailable extends Error {
  override readonly name = 'StorageUnavailable'
}

/**
 * The storage must not be used as it was found: it is damaged, it lacks a table, another process works on it, or a newer release changed
 * it. It stays so until an operator does what the message says.
 */
export class StorageUnusable extends Error {
  override readonly name = 'StorageUnusable'
}

/** SQLite's primary result codes: full, read-only, I/O, locked by another process, cannot open. */
const SQLITE_CODES = /^SQLITE_(FULL|READONLY|IOERR|BUSY|LOCKED|CANTOPEN|NOLFS)/

/**
 * PostgreSQL's classes 08 (connection), 40 (rolled back in favour of others, deadlocks among them), 53 (resources, disk full among
 * them), 57P and 57014 (operator intervention, statement timeout), 58 (system error), 25006 (read-only: a standby, or a primary out of
 * space), 25P03 (a transaction in which this process was silent for too long), 42501 (a privilege was withdrawn), 55P03 (lock not
 * available).
 */
const POSTGRES_CODES = /^(08|40|53|57P|57014|58|25006|25P03|42501|55P03)/

/** It was in the way of others, or they in its: the same work alone may be done. */
const HELD_UP = /^(40|55P03)/

const SOCKET_CODES = /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOENT)/

/** Errors of the folder: full, read-only, not ours, out of files, broken; or something else stands in a file's or a folder's place. */
const FILE_CODES = /^(ENOSPC|EDQUOT|EROFS|EACCES|EPERM|EMFILE|ENFILE|EIO|EISDIR|ENOTDIR|EEXIST|ELOOP)$/

/** It is read as before, and cannot be written: full, read-only, or locked by another process that writes to the file. */
const UNWRITABLE = /^(SQLITE_(FULL|READONLY|BUSY|IOERR)|25006|53100|ENOSPC|EDQUOT|EROFS)/
const UNWRITABLE_MS = 60_000
const TOLD_EVERY_MS = 60_000

/** pg gives these errors without a code. */
const POSTGRES_MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Query read timeout)/

/** libsql gives this error with an empty code: the file cannot be opened. */
const SQLITE_MESSAGES = /^ConnectionFailed\(/

/** Whether the storage itself failed, so that any other work would fail, too. */
function isUnavailable(error: unknown): error is Error {
  if (!(error instanceof Error)) return false
  if (error instanceof StorageUnavailable) return true
  const { code } = error as { code?: unknown }
  if (typeof code === 'string' && code !== '') {
    return [SQLITE_CODES, POSTGRES_CODES, SOCKET_CODES, FILE_CODES].some((codes) => codes.test(code))
  }
  return [POSTGRES_MESSAGES, SQLITE_MESSAGES].some((messages) => messages.test(error.message))
}

/** Whether the work and another transaction were in each other's way: other work is not affected. */
function isHeldUp(error: unknown): boolean {
  return error instanceof Error && HELD_UP.test(String((error as { code?: unknown }).code))
}

function unavailable(cause: Error): StorageUnavailable {
  return new StorageUnavailable(`the storage cannot serve just now: ${cause.message}`, { cause })
}

function isUnwritable({ cause }: StorageUnavailable): boolean {
  return UNWRITABLE.test(String((cause as { code?: unknown } | undefined)?.code))
}

/** Runs `work`; a failure of the storage itself is thrown as `StorageUnavailable`. */
export async function storageWork<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isUnavailable(error) || error instanceof StorageUnavailable) throw error
    throw unavailable(error)
  }
}

/** An error of this program, and not of what it found in the storage. */
function isOurs(error: unknown): boolean {
  return [TypeError, RangeError, ReferenceError].some((kind) => error instanceof kind)
}

/**
 * Runs `work`, which opens the storage. Every error of the storage is thrown as `StorageUnavailable` or `StorageUnusable`: also that a
 * table is missing, that another program made the tables, or that the database does not know the format of the file.
 */
export async function openingWork<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await storageWork(work)
  } catch (error) {
    if (isOurs(error) || error instanceof StorageUnavailable || error instanceof StorageUnusable) throw error
    throw new StorageUnusable(
      `the storage cannot be used as it is: ${error instanceof Error ? error.message : String(error)}; restore it from a backup, or name another one (docs/storage.md)`,
      { cause: error },
    )
  }
}

/** The connection that is made; throws `StorageUnavailable` when it cannot be, whatever keeps it from that. */
export async function reached<T>(connecting: Promise<T>): Promise<T> {
  try {
    return await connecting
  } catch (error) {
    throw unavailable(error as Error)
  }
}

type Methods = Record<string, (...args: never[]) => Promise<unknown>>
type Work = <T>(work: () => Promise<T>) => Promise<T>

function methodsThrough<T extends Methods>(run: Work, methods: T): T {
  const wrapped = Object.entries(methods).map(([name, method]) => [
    name,
    (...args: never[]) => run(() => method(...args)),
  ])
  return Object.fromEntries(wrapped) as T
}

/** The same methods, each run as one unit of storage work. */
export function storageMethods<T extends Methods>(methods: T): T {
  return methodsThrough(storageWork, methods)
}

/**
 * Storage work that remembers how its last run ended. What was read says nothing of whether the storage can be written, so of one that
 * cannot be written it says so until something was written, or for `UNWRITABLE_MS` after the last that could not be. `onProblem`
 * receives why it failed, once a minute at most.
 */
export function watchedStorage(now: () => number, onProblem: (problem: string) => void) {
  let problem: { message: string; until: number } | undefined
  let toldAt = Number.NEGATIVE_INFINITY

  function failed(error: StorageUnavailable): void {
    problem = { message: error.message, until: isUnwritable(error) ? now() + UNWRITABLE_MS : 0 }
    if (now() < toldAt + TOLD_EVERY_MS) return
    toldAt = now()
    onProblem(error.message)
  }

  function watching(isWriting: boolean) {
    async function work<T>(run: () => Promise<T>): Promise<T> {
      try {
        const result = await storageWork(run)
        if (isWriting || now() >= (problem?.until ?? 0)) problem = undefined
        return result
      } catch (error) {
        if (error instanceof StorageUnavailable) failed(error)
        throw error
      }
    }
    return { work, methods: <T extends Methods>(methods: T): T => methodsThrough(work, methods) }
  }

  return {
    /** Of work that always writes. */
    writing: watching(true),
    /** Of work that may only read. */
    using: watching(false),
    /** Why the storage could not serve; undefined after it has served again. */
    problem: () => problem?.message,
  }
}

type LotsOptions<W> = {
  /** Resolves when the next lot may begin; what arrives until then is part of it. Default: at once. */
  next?(): Promise<unknown>
  /** How many it counts for, when it is larger than others. Default: one. */
  weight?(what: W): number
}

type Waiting<W, R> = { what: W; resolve(result: R): void; reject(error: unknown): void }

/**
 * Work that is done together: what arrives while one lot is written is the next lot. `write` gives one result for each member of a
 * lot, in their order. A member that cannot be written does not fail the others of its lot, and one that waits for another process
 * delays only its own lot.
 */
export function createLots<W, R>(
  write: (lot: readonly W[]) => Promise<readonly R[]>,
  { next, weight = () => 1 }: LotsOptions<W> = {},
): (what: W) => Promise<R> {
  const waiting: Waiting<W, R>[] = []
  const alone = pLimit(MOST_ALONE)
  let isWriting = false

  async function writeLot(lot: readonly Waiting<W, R>[]): Promise<void> {
    try {
      const results = await write(lot.map(({ what }) => what))
      for (const [index, { resolve }] of lot.entries()) resolve(results[index] as R)
    } catch (error) {
      const isOfAll = lot.length === 1 || (isUnavailable(error) && !isHeldUp(error))
      if (isOfAll) for (const { reject } of lot) reject(error)
      else for (const one of lot) void alone(() => writeLot([one]))
    }
  }

  /** The first of those that wait, and what fits in a lot with it. */
  function taken(): Waiting<W, R>[] {
    let [count, sum] = [0, 0]
    for (const { what } of waiting) {
      sum += weight(what)
      if (count > 0 && sum > MOST_TOGETHER) break
      count += 1
    }
    return waiting.splice(0, count)
  }

  async function drain(): Promise<void> {
    isWriting = true
    while (waiting.length > 0) {
      if (next) await next()
      await writeLot(taken())
    }
    isWriting = false
  }

  return (what) =>
    new Promise((resolve, reject) => {
      waiting.push({ what, resolve, reject })
      if (!isWriting) void drain()
    })
}
