/**
 * The adagents.json files of all providers: how one is fetched, shared and kept in memory (docs/protocol.md#provider-files).
 * One GET has its budgets, its conditions and its outcome as a value; an ETag or date is sent only to the url that gave it,
 * and only that url's `unchanged` is accepted. A file that pointers lead to is fetched once and held once, however many
 * providers point to it. The memory of all is bounded, and shared fairly among the owners of upstreams that name their providers,
 * and for each owner among registrable domains. And how a storage keeps one: with the tables made from it.
 */
import { isRecord } from '../../adcp/json.js'
import type { Outbound, Reply, Send, SendFailure } from '../../net/send.js'
import { createFairBudget } from '../../process/fair-bytes.js'
import { bytesOf, sharedBytes } from '../../upstreams/rows/slab.js'
import { type RuleTables, tableBytes } from '../rules/tables.js'
import type { HeldDocument, ProviderState, Unverifiable } from '../rules/verdict.js'
import { registrableDomain, speaksFor } from './domains.js'
import type { Examine } from './inspector.js'

const MEGABYTE = 1024 * 1024
const WELL_KNOWN_BYTES = 5 * MEGABYTE
const AUTHORITATIVE_BYTES = 20 * MEGABYTE
const TIMEOUT_MS = 10_000
const FAILED_FRESH_MS = 1_000 // long enough that many providers cause one request, short enough that a recovery is soon seen

/**
 * Raise this number when the same document gives other tables: those that an earlier release saved are then made again. A
 * test fails when the tables change and this number does not.
 */
const TABLES_FORM = 1

const SEND_FAILURES: Partial<Record<SendFailure, Unverifiable>> = {
  too_large: 'too_large',
  crowded_out: 'over_budget',
  bad_redirect: 'bad_redirect',
}

/**
 * `passing`: the last good file stays valid until its stale cap. Only a provider that says there is no file ends it at
 * once.
 */
export type Failure = { reason: Unverifiable; message: string; passing: boolean }

/** What a url last answered: enough to ask whether it changed. */
export type KnownFile = { readonly url: string; readonly etag?: string; readonly lastModified?: string }

type FileOutcome =
  | { kind: 'document'; document: HeldDocument }
  | { kind: 'pointer'; target: string; answered: KnownFile }
  | { kind: 'unchanged' }
  | ({ kind: 'failed' } & Failure)

export type FileOptions = { send: Send; examine: Examine; now: () => number; signal: AbortSignal }

/** A fault says nothing about the file, so it revokes nothing (docs/protocol.md#provider-files). */
function fault(reason: Unverifiable, message: string): FileOutcome {
  return { kind: 'failed', reason, message, passing: true }
}

function failedStatus(status: number): FileOutcome {
  const message = `the server answered ${status}`
  if (status === 404 || status === 410) return { kind: 'failed', reason: 'no_file', message, passing: false }
  return fault(status >= 300 && status < 400 && status !== 304 ? 'bad_redirect' : 'unreachable', message)
}

function conditions(known: KnownFile | undefined): Record<string, string> {
  return {
    ...(known?.etag && { 'if-none-match': known.etag }),
    ...(known?.lastModified && { 'if-modified-since': known.lastModified }),
  }
}

function answeredBy({ url, headers }: Reply): KnownFile {
  return {
    url,
    ...(headers.etag && { etag: headers.etag }),
    ...(headers['last-modified'] && { lastModified: headers['last-modified'] }),
  }
}

async function getFile(
  options: FileOptions,
  request: Pick<Outbound, 'url' | 'maxBytes' | 'redirects'>,
  known: KnownFile | undefined,
  owns: (url: string) => boolean,
): Promise<FileOutcome> {
  const headers = conditions(known)
  const outcome = await options.send({
    ...request,
    headers: { accept: 'application/json', ...headers },
    timeoutMs: TIMEOUT_MS,
    signal: options.signal,
  })
  if (outcome.kind === 'failed') {
    return fault(SEND_FAILURES[outcome.reason] ?? 'unreachable', outcome.message)
  }
  if (!owns(outcome.url)) return fault('bad_redirect', 'the answer came from outside the provider')
  if (outcome.status === 304 && Object.keys(headers).length > 0) {
    // "Unchanged" from another url says nothing about the file that we hold: ask that url without conditions.
    return outcome.url === known?.url ? { kind: 'unchanged' } : getFile(options, request, undefined, owns)
  }
  if (outcome.status !== 200) return failedStatus(outcome.status)
  const { inspection, bytes } = await options.examine(outcome.body)
  if (inspection.kind === 'invalid') return fault('invalid_file', inspection.message)
  if (inspection.kind === 'bad_pointer') return fault('bad_pointer', inspection.message)
  const answered = answeredBy(outcome)
  if (inspection.kind === 'pointer') return { kind: 'pointer', target: inspection.target, answered }
  const { digest, lastUpdated, catalogEtag, tables } = inspection
  const fetchedAt = options.now()
  const document = { ...answered, lastUpdated, catalogEtag, fetchedAt, digest, bytes, tables }
  return { kind: 'document', document }
}

/** The domain's well-known file: redirects inside its registrable domain, 5 MB. */
export function getWellKnown(
  options: FileOptions,
  domain: string,
  url: string,
  known: KnownFile | undefined,
): Promise<FileOutcome> {
  const owns = (from: string) => speaksFor(from, domain)
  return getFile(options, { url, maxBytes: WELL_KNOWN_BYTES, redirects: 'same-site' }, known, owns)
}

/** The file that a pointer names: no redirect, 20 MB, and it must not be a pointer itself. */
async function getAuthoritative(
  options: FileOptions,
  url: string,
  known: KnownFile | undefined,
): Promise<FileOutcome> {
  const outcome = await getFile(
    options,
    { url, maxBytes: AUTHORITATIVE_BYTES },
    known,
    (from) => from === url,
  )
  if (outcome.kind === 'pointer') return fault('bad_pointer', 'the file it points to points on')
  if (outcome.kind === 'failed' && outcome.reason === 'bad_redirect') {
    return fault('bad_pointer', 'the file it points to redirects')
  }
  return outcome
}

type LibraryOptions = FileOptions & {
  /** How long one answer serves every provider that points there, ms. */
  freshMs: number
}

type TargetOutcome = Exclude<FileOutcome, { kind: 'pointer' } | { kind: 'unchanged' }>

type SharedFile = {
  document?: HeldDocument
  asking?: Promise<TargetOutcome>
  answer?: { outcome: TargetOutcome; at: number }
}

export type Library = ReturnType<typeof createLibrary>

/**
 * The files that pointers lead to, held and fetched once each: all publishers of a network may share one. Empty at first;
 * `restore` gives it the documents of an earlier run.
 */
export function createLibrary(options: LibraryOptions) {
  const files = new Map<string, SharedFile>()

  function fileOf(url: string): SharedFile {
    const file = files.get(url) ?? {}
    files.set(url, file)
    return file
  }

  async function ask(url: string, file: SharedFile): Promise<TargetOutcome> {
    const outcome = await getAuthoritative(options, url, file.document)
    if (outcome.kind === 'unchanged' && file.document) return { kind: 'document', document: file.document }
    if (outcome.kind === 'document') file.document = outcome.document
    else if (outcome.kind === 'failed' && !outcome.passing) delete file.document
    return outcome as TargetOutcome
  }

  /** The file at `url`. With `anew` the server is asked even when it answered recently. */
  function get(url: string, anew: boolean): Promise<TargetOutcome> {
    const file = fileOf(url)
    if (file.asking) return file.asking
    const { answer } = file
    const freshMs = answer?.outcome.kind === 'failed' ? FAILED_FRESH_MS : options.freshMs
    if (!anew && answer && options.now() < answer.at + freshMs) return Promise.resolve(answer.outcome)
    file.asking = ask(url, file)
      .then((outcome) => {
        file.answer = { outcome, at: options.now() }
        return outcome
      })
      .finally(() => delete file.asking)
    return file.asking
  }

  /** Restores a document of an earlier run, so that it can be confirmed and need not be fetched. */
  function restore(url: string, document: HeldDocument): HeldDocument {
    const file = fileOf(url)
    if (file.document?.digest !== document.digest) file.document ??= document
    return file.document?.digest === document.digest ? file.document : document
  }

  /** Drops a document wherever it is held: the next request fetches it. */
  function drop(digest: string): void {
    for (const [url, { document }] of files) if (document?.digest === digest) files.delete(url)
  }

  /** Drops every file that no provider points to any more. */
  function retain(urls: ReadonlySet<string>): void {
    for (const url of files.keys()) if (!urls.has(url)) files.delete(url)
  }

  return { get, restore, drop, retain }
}

type RoomOptions = {
  /** The current bound, in bytes, on all documents and the tables made from them. */
  bytes: () => number
  /** The owners of the upstreams that name a provider. */
  ownersOf(domain: string): readonly string[]
  /** Called when there is no room for this document: its users have to drop it. */
  onEvicted(digest: string, users: readonly string[]): void
}

/** The bytes of a document and its tables. */
export function recordBytes({ bytes, tables }: HeldDocument): number {
  return bytes.byteLength + tableBytes(tables)
}

/** Bounds the memory of all documents together. A document counts once, however many providers point to it. */
export function createRoom({ bytes, ownersOf, onEvicted }: RoomOptions) {
  const budget = createFairBudget(bytes)
  const usersOf = new Map<string, Set<string>>()

  function ownersOfDocument(digest: string): string[] {
    const found = new Set<string>()
    for (const domain of usersOf.get(digest) ?? []) for (const owner of ownersOf(domain)) found.add(owner)
    return [...found]
  }

  function take(domain: string, document: HeldDocument): void {
    const { digest, url } = document
    const users = usersOf.get(digest) ?? new Set()
    usersOf.set(digest, users.add(domain))
    if (budget.has(digest)) return
    const gone = budget.hold(digest, {
      bytes: recordBytes(document),
      group: registrableDomain(new URL(url).hostname),
      owners: () => ownersOfDocument(digest),
    })
    for (const lost of gone) {
      const losers = [...(usersOf.get(lost) ?? [])]
      usersOf.delete(lost)
      onEvicted(lost, losers)
    }
  }

  function release(domain: string, { digest }: HeldDocument): void {
    const users = usersOf.get(digest)
    if (!users?.delete(domain) || users.size > 0) return
    usersOf.delete(digest)
    budget.release(digest)
  }

  return {
    /**
     * Registers that a provider's document was replaced, came or went. A new one may be evicted before this returns.
     */
    changed({ domain, document: before }: ProviderState, after: HeldDocument | undefined): void {
      if (before?.digest === after?.digest) return
      if (before) release(domain, before)
      if (after) take(domain, after)
    },
    /** Upstreams now name other providers. */
    reassign: budget.reassign,
    bytes: budget.bytes,
  }
}

const ARRAYS = {
  Uint8Array: (bytes: SharedArrayBuffer) => new Uint8Array(bytes),
  Uint32Array: (bytes: SharedArrayBuffer) => new Uint32Array(bytes),
  Float64Array: (bytes: SharedArrayBuffer) => new Float64Array(bytes),
}

/** Stands in the header for an array, which is a part of its own. */
type Place = { array: keyof typeof ARRAYS; part: number }

const isPlace = (value: Record<string, unknown>): value is Place => 'array' in value && 'part' in value

function withArrays(value: unknown, parts: readonly Uint8Array[]): unknown {
  if (!isRecord(value)) return value
  if (isPlace(value)) return ARRAYS[value.array](sharedBytes(parts[value.part] as Uint8Array))
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withArrays(member, parts)]))
}

/**
 * A document's tables as a storage keeps them: first a header in JSON, then the arrays. A process that finds them need not
 * read the document again before it can give verdicts.
 */
export function tableParts(tables: RuleTables): Uint8Array[] {
  const arrays: Uint8Array[] = []
  const header = JSON.stringify({ form: TABLES_FORM, tables }, (_name, value: unknown) => {
    if (!ArrayBuffer.isView(value)) return value
    arrays.push(bytesOf(value))
    return { array: value.constructor.name, part: arrays.length }
  })
  return [Buffer.from(header), ...arrays]
}

/** Over shared memory; undefined when there are none, or those of another form. */
export function tablesFrom(parts: readonly Uint8Array[]): RuleTables | undefined {
  const [header] = parts
  if (!header) return undefined
  const { form, tables } = JSON.parse(Buffer.from(header).toString()) as { form: number; tables: RuleTables }
  // Another release may have arrays that are not known here, so its form is looked at first.
  return form === TABLES_FORM ? (withArrays(tables, parts) as RuleTables) : undefined
}
