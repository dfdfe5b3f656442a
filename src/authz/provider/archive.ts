/**
 * The records of providers in a storage. They outlive the process, because the caps, the pointer hold and the rollback refusal
 * would mean little if a restart reset them. Documents are stored by digest, so that providers that share one store it once, with
 * the tables made from it as parts of the blob: to read all documents again takes longer than all else of a restart.
 */
import { sharedBytes } from '../../upstreams/rows/slab.js'
import type { Blobs, Sharing, Turn } from '../../upstreams/rows/storage.js'
import { HARD_CAP_MS, type HeldDocument } from '../rules/verdict.js'
import { tableParts, tablesFrom } from './files.js'
import type { Examine } from './inspector.js'
import type { ProviderRecord } from './record.js'

const RECORDS = 'provider/'
const DOCUMENTS = 'provider-document/'
const VERSION = 1

type Stored = {
  version: number
  record: ProviderRecord & { document?: Omit<HeldDocument, 'bytes' | 'tables'> }
}

/**
 * An instant from before the clock was set back may lie in the future: it is moved to now, because it would lengthen
 * every cap.
 */
function clamped(record: ProviderRecord, now: number): ProviderRecord {
  const { document, confirmedAt, adopted, pending, problem } = record
  return {
    ...record,
    ...(document && { document: { ...document, fetchedAt: Math.min(document.fetchedAt, now) } }),
    ...(confirmedAt !== undefined && { confirmedAt: Math.min(confirmedAt, now) }),
    ...(adopted && { adopted: { ...adopted, at: Math.min(adopted.at, now) } }),
    ...(pending && { pending: { ...pending, since: Math.min(pending.since, now) } }),
    ...(problem && { problem: { ...problem, since: Math.min(problem.since, now) } }),
  }
}

type ArchiveOptions = {
  blobs: Blobs
  sharing: Sharing | undefined
  examine: Examine
  now: () => number
}

/** Loads, saves and sweeps records. `examine` reads documents that were saved without tables of this release. */
export function createArchive({ blobs, sharing, examine, now }: ArchiveOptions) {
  /** Digests known to be on disk, with tables of this release. */
  const stored = new Set<string>()

  async function readRecord(domain: string): Promise<Stored['record'] | undefined> {
    const parts = await blobs.read(`${RECORDS}${domain}`)
    if (!parts?.[0]) return undefined
    const { version, record } = JSON.parse(Buffer.from(parts[0]).toString()) as Stored
    return version === VERSION && record.domain === domain ? record : undefined
  }

  /** The document with its tables, which are made again when this release has not saved them. */
  async function readDocument(digest: string): Promise<Pick<HeldDocument, 'bytes' | 'tables'> | undefined> {
    const [bytes, ...saved] = (await blobs.read(`${DOCUMENTS}${digest}`)) ?? []
    if (!bytes) return undefined
    const tables = tablesFrom(saved)
    if (tables) {
      stored.add(digest)
      return { bytes: new Uint8Array(sharedBytes(bytes)), tables }
    }
    const { inspection, bytes: shared } = await examine(bytes)
    return inspection.kind === 'document' ? { bytes: shared, tables: inspection.tables } : undefined
  }

  async function load(domain: string): Promise<ProviderRecord | undefined> {
    const record = await readRecord(domain)
    if (!record) return undefined
    const { document, confirmedAt, ...rest } = record
    const held = document && (await readDocument(document.digest))
    return clamped(held ? { ...rest, document: { ...document, ...held }, confirmedAt } : rest, now())
  }

  /**
   * The document is written first, so that a record never names a missing one. False when this process has lost the
   * turn: nothing was saved.
   */
  async function save(record: ProviderRecord, turn: Turn): Promise<boolean> {
    const { document, ...rest } = record
    if (document && !stored.has(document.digest)) {
      await blobs.write(`${DOCUMENTS}${document.digest}`, [document.bytes, ...tableParts(document.tables)])
      stored.add(document.digest)
    }
    const { bytes, tables, ...described } = document ?? {}
    const value = { version: VERSION, record: { ...rest, ...(document && { document: described }) } }
    const name = `${RECORDS}${record.domain}`
    const parts = [Buffer.from(JSON.stringify(value))]
    if (sharing) return sharing.write(name, parts, turn)
    await blobs.write(name, parts)
    return true
  }

  /** Removes records of providers that are no longer wanted and hold nothing, and documents that no record names. */
  async function sweep(wanted: (domain: string) => boolean, inUse: ReadonlySet<string>): Promise<void> {
    const named = new Set(inUse)
    for (const name of await blobs.list(RECORDS)) {
      const domain = name.slice(RECORDS.length)
      const record = await readRecord(domain)
      const over = !record?.adopted || now() >= record.adopted.at + HARD_CAP_MS
      if (over && !wanted(domain)) await blobs.remove(name)
      else if (record?.document) named.add(record.document.digest)
    }
    for (const name of await blobs.list(DOCUMENTS)) {
      const digest = name.slice(DOCUMENTS.length)
      if (named.has(digest)) continue
      stored.delete(digest)
      await blobs.remove(name)
    }
  }

  return { load, save, sweep }
}
