/**
 * Blobs as files, one per name. A file is written under another name and then renamed, so that a crash leaves the old file or the new
 * one. Each part has a checksum (CRC-32, as in gzip), and each file says whose name it was written under, so that a file that is
 * damaged, or in another's place, is ignored and reported. A process with a million signals has gigabytes to check at its start, and
 * tens of megabytes to sum up after a change: two threads do that, and the thread that serves only waits for them.
 */
import { hash } from 'node:crypto'
import { constants } from 'node:fs'
import { link, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { nextOwnPortion } from '../process/portion-turns.js'
import { answerJobs, createPool } from '../process/thread-pool.js'
import { type AddedBlobs, areWhole, type BegunPart } from '../upstreams/rows/storage.js'
import { createReadingOrder } from './reading-order.js'

const MAGIC = Buffer.from('TRBLOB1\n')
const SUFFIX = '.blob'
const UNFINISHED = '.tmp'
const READ_BYTES = 512 * 1024 * 1024 // a single read fails near 2 GiB (docs/decisions.md#memory-and-threads)
const READS_AT_ONCE = 2 // of a file: the system has four threads for them, and for all that a start asks for meanwhile
const FIRST_BYTES = 64 * 1024 // a small file is read in one go: a process starts with thousands of parts of some bytes
const BEFORE_HEADER = MAGIC.byteLength + 8 // its length and checksum
const LONGEST_NAME = 250 // bytes of a file's name before its suffix; file systems refuse more
const CUT = '+' // does not occur in an escaped name
const READ = constants.O_RDONLY | constants.O_NONBLOCK // a pipe in the place of a file is not waited for
const UNREADABLE = /^(EIO|EISDIR|ENXIO)$/ // errors of this one file
const HERE_BYTES = 2 * 1024 * 1024 // half a millisecond to sum up: asking a thread would take as long

/** `name`: absent in files of earlier releases whose own name contains it. */
type Header = { parts: { length: number; crc32: number }[]; name?: string }

type BlobFilesOptions = {
  folder: string
  /** Removes files that interrupted writes have left. Default: no, because another process may be writing. */
  sweep?: boolean
  /** Receives each file that exists but is damaged. */
  onDamage: (name: string, reason: string) => void
}

type File = Awaited<ReturnType<typeof open>>

const threads = createPool<Uint8Array, number>({
  code: new URL('./blob-files.js', import.meta.url),
  ...{ size: 2, heapMb: 32, jobMs: 60_000 },
})

let summed = 0 // bytes since requests were served last, of all parts together: many small ones take as long as a large one

/** Sums a part up on this thread, in portions between which requests are served. */
async function sumHere(part: Uint8Array): Promise<number> {
  let sum = 0
  for (let at = 0; at < part.byteLength; at += HERE_BYTES) {
    const portion = part.subarray(at, at + HERE_BYTES)
    if (summed + portion.byteLength > HERE_BYTES) {
      await nextOwnPortion()
      summed = 0
    }
    sum = crc32(portion, sum)
    summed += portion.byteLength
  }
  return sum
}

/** A part's checksum. A thread sums up large parts in shared memory; this one all others, and every part when no thread can. */
export function checksumOf(part: Uint8Array): Promise<number> {
  const isForThreads = part.byteLength > HERE_BYTES && part.buffer instanceof SharedArrayBuffer
  return isForThreads ? threads.run('', part, [], part.byteLength).catch(() => sumHere(part)) : sumHere(part)
}

/**
 * Creates a folder and its parents; an existing one is left unchanged. Rejects with the system's error. Node's own `recursive` asks for
 * ever where a folder is there and takes no other (/proc), and reports ENOENT for a read-only file system.
 */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  const make = () => mkdir(path, mode === undefined ? {} : { mode })
  async function underNewParents(error: NodeJS.ErrnoException): Promise<void> {
    if (error.code !== 'ENOENT' || dirname(path) === path) throw error
    await makeFolder(dirname(path), mode)
    await make()
  }
  async function unlessThere(error: unknown): Promise<void> {
    const found = await stat(path).catch(() => undefined)
    if (!found?.isDirectory()) throw error
  }
  await make().catch(underNewParents).catch(unlessThere)
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

async function fill(file: File, into: Uint8Array, position: number): Promise<boolean> {
  for (let done = 0; done < into.byteLength; ) {
    const length = Math.min(READ_BYTES, into.byteLength - done)
    const { bytesRead } = await file.read(into, done, length, position + done)
    if (bytesRead === 0) return false
    done += bytesRead
  }
  return true
}

/** A long name becomes its beginning, for people, and its hash. */
function fileName(name: string): string {
  const escaped = encodeURIComponent(name)
  return escaped.length > LONGEST_NAME
    ? `${escaped.slice(0, 100)}${CUT}${hash('sha256', name)}${SUFFIX}`
    : `${escaped}${SUFFIX}`
}

/** Undefined for what is no escaped name. */
function unescaped(escaped: string): string | undefined {
  try {
    return decodeURIComponent(escaped)
  } catch {
    return undefined
  }
}

async function encodeHeader(parts: readonly Uint8Array[], name: string): Promise<Buffer> {
  const header: Header = { parts: [], name }
  for (const part of parts) {
    header.parts.push({ length: part.byteLength, crc32: await checksumOf(part) })
  }
  const json = Buffer.from(JSON.stringify(header))
  const size = Buffer.alloc(8)
  size.writeUInt32LE(json.byteLength, 0)
  size.writeUInt32LE(crc32(json), 4)
  return Buffer.concat([MAGIC, size, json])
}

/** What a file begins with; `end` is where its header ends. */
type Opening = { header: Header; end: number; size: number; first: Buffer }

async function readOpening(file: File): Promise<Opening | undefined> {
  const { size } = await file.stat()
  const first = Buffer.alloc(Math.min(size, FIRST_BYTES))
  if (!(await fill(file, first, 0))) return undefined
  if (size < BEFORE_HEADER || !first.subarray(0, MAGIC.byteLength).equals(MAGIC)) return undefined
  const length = first.readUInt32LE(MAGIC.byteLength)
  const end = BEFORE_HEADER + length
  if (end > size) return undefined
  const json = end > first.byteLength ? Buffer.alloc(length) : first.subarray(BEFORE_HEADER, end)
  if (end > first.byteLength && !(await fill(file, json, BEFORE_HEADER))) return undefined
  if (crc32(json) !== first.readUInt32LE(MAGIC.byteLength + 4)) return undefined
  return { header: JSON.parse(json.toString()) as Header, end, size, first }
}

/** The parts, or what is wrong with the file. Some are checked while others are read. */
async function beginParts(file: File, name: string): Promise<BegunPart[] | string> {
  const opening = await readOpening(file)
  if (!opening) return 'its header is damaged'
  const { header, size, first } = opening
  if (header.name !== undefined && header.name !== name) return `it was written as ${header.name}`
  let end = opening.end
  const places = header.parts.map((part) => {
    const position = end
    end += part.length
    return { ...part, position }
  })
  if (end > size) return 'it is cut short'
  const order = createReadingOrder(READS_AT_ONCE)
  return places.map(({ position, length, crc32: expected }) => {
    const bytes = new Uint8Array(new SharedArrayBuffer(length)) // a thread reads it without a copy
    const isSame = async () => (await checksumOf(bytes)) === expected
    if (position + length <= first.byteLength) {
      bytes.set(first.subarray(position, position + length))
      return { bytes, isWhole: isSame(), hasten() {} }
    }
    const { done, hasten } = order.add(() => fill(file, bytes, position))
    return { bytes, isWhole: done.then((is) => is && isSame()), hasten }
  })
}

/** What is wrong with a file of which the disk gives nothing. Throws an error that says nothing of the file. */
function unreadable(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (!UNREADABLE.test(String(code))) throw error
  return `it cannot be read (${message})`
}

const isMissing = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ENOENT'

async function removeUnfinished(folder: string): Promise<void> {
  const files = (await readdir(folder)).filter((file) => file.endsWith(UNFINISHED))
  for (const file of files) await rm(join(folder, file), { force: true })
}

/** Blobs under `folder`, which is created if it is missing. Throws when it cannot be created. */
export async function openBlobFiles({ folder, sweep, onDamage }: BlobFilesOptions): Promise<AddedBlobs> {
  await makeFolder(folder)
  if (sweep) await removeUnfinished(folder)
  const pathOf = (name: string) => join(folder, fileName(name))
  let writes = 0

  /** What is wrong with a part is told once; the file is open until every part is read. */
  function told(name: string, file: File, parts: readonly BegunPart[]): BegunPart[] {
    let isDamaged = false
    function damaged(reason: string): false {
      if (!isDamaged) onDamage(name, reason)
      isDamaged = true
      return false
    }
    const all = parts.map(({ isWhole, ...part }) => ({
      ...part,
      isWhole: isWhole.then(
        (is) => is || damaged('a checksum does not match'),
        (error) => damaged(unreadable(error)),
      ),
    }))
    const closed = Promise.allSettled(all.map((part) => part.isWhole)).then(() => file.close())
    closed.catch(() => {}) // what was read is checked
    return all
  }

  async function begin(name: string): Promise<BegunPart[] | undefined> {
    let file: File | undefined
    let begun: BegunPart[] | string | undefined
    try {
      file = await open(pathOf(name), READ)
      begun = await beginParts(file, name)
      if (typeof begun === 'object') return told(name, file, begun)
    } catch (error) {
      if (isMissing(error)) return undefined
      begun = unreadable(error)
    } finally {
      if (typeof begun !== 'object') await file?.close()
    }
    onDamage(name, begun)
    return undefined
  }

  async function read(name: string): Promise<Uint8Array[] | undefined> {
    const parts = await begin(name)
    return parts && (await areWhole(parts)) ? parts.map(({ bytes }) => bytes) : undefined
  }

  /** Writes a temporary file; `place` then moves it to its final name. */
  async function written(
    name: string,
    parts: readonly Uint8Array[],
    place: (beside: string, path: string) => Promise<void>,
  ): Promise<void> {
    const path = pathOf(name)
    const beside = join(folder, `${process.pid}.${++writes}${UNFINISHED}`)
    try {
      const file = await open(beside, 'w')
      try {
        await file.writev([await encodeHeader(parts, name)])
        for (const part of parts) await file.writeFile(part)
        await file.sync()
      } finally {
        await file.close()
      }
      await place(beside, path)
    } catch (error) {
      await rm(beside, { force: true })
      throw error
    }
    await syncFolder(folder)
  }

  /** The system makes a link only if the name is free, in one atomic step. */
  async function placeNew(beside: string, path: string): Promise<void> {
    await link(beside, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    await rm(beside)
  }

  /** The name in the header of a file whose own name does not contain it; undefined when it is damaged, or gone by now. */
  async function nameWithin(file: string): Promise<string | undefined> {
    let opened: File | undefined
    try {
      opened = await open(join(folder, file), READ)
      return (await readOpening(opened))?.header.name
    } catch (error) {
      if (!isMissing(error)) unreadable(error)
      return undefined
    } finally {
      await opened?.close()
    }
  }

  /** Undefined for a file that no blob has: it is damaged, or something else has put it here. */
  async function nameOf(file: string): Promise<string | undefined> {
    const name = file.includes(CUT) ? await nameWithin(file) : unescaped(file.slice(0, -SUFFIX.length))
    return name !== undefined && fileName(name) === file ? name : undefined
  }

  async function list(prefix: string): Promise<string[]> {
    const files = (await readdir(folder)).filter((file) => file.endsWith(SUFFIX))
    const names = await Promise.all(files.map(nameOf))
    return names.flatMap((name) => (name?.startsWith(prefix) ? [name] : [])).sort()
  }

  return {
    ...{ read, begin },
    write: (name, parts) => written(name, parts, rename),
    add: (name, parts) => written(name, parts, placeNew),
    async remove(name) {
      await rm(pathOf(name), { force: true })
      await syncFolder(folder)
    },
    list,
  }
}

/** In a thread: parts are in shared memory, and only the checksum comes back. */
answerJobs(import.meta.url, (part: Uint8Array) => crc32(part))
