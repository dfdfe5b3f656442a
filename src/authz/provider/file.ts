/**
 * One GET of one adagents.json: its budgets, its conditions and its outcome as a value
 * (docs/protocol.md#provider-files, fetch duties). An ETag or date is sent only to the url that gave it, and only that
 * url's `unchanged` is accepted.
 */
import type { Outbound, Reply, Send, SendFailure } from '../../net/send.js'
import type { HeldDocument } from '../rules/state.js'
import type { Unverifiable } from '../rules/verdict.js'
import { speaksFor } from './domain.js'
import type { Examine } from './inspector.js'

const MEGABYTE = 1024 * 1024
const WELL_KNOWN_BYTES = 5 * MEGABYTE
const AUTHORITATIVE_BYTES = 20 * MEGABYTE
const TIMEOUT_MS = 10_000

/**
 * `passing`: the last good file stays valid until its stale cap. Only a provider that says there is no file ends it at
 * once.
 */
export type Failure = { reason: Unverifiable; message: string; passing: boolean }

/** What a url last answered: enough to ask whether it changed. */
export type KnownFile = { readonly url: string; readonly etag?: string; readonly lastModified?: string }

export type FileOutcome =
  | { kind: 'document'; document: HeldDocument }
  | { kind: 'pointer'; target: string; answered: KnownFile }
  | { kind: 'unchanged' }
  | ({ kind: 'failed' } & Failure)

export type FileOptions = { send: Send; examine: Examine; now: () => number; signal: AbortSignal }

const SEND_FAILURES: Partial<Record<SendFailure, Unverifiable>> = {
  too_large: 'too_large',
  crowded_out: 'over_budget',
  bad_redirect: 'bad_redirect',
}

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

async function get(
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
    return outcome.url === known?.url ? { kind: 'unchanged' } : get(options, request, undefined, owns)
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
  return get(options, { url, maxBytes: WELL_KNOWN_BYTES, redirects: 'same-site' }, known, owns)
}

/** The file that a pointer names: no redirect, 20 MB, and it must not be a pointer itself. */
export async function getAuthoritative(
  options: FileOptions,
  url: string,
  known: KnownFile | undefined,
): Promise<FileOutcome> {
  const outcome = await get(options, { url, maxBytes: AUTHORITATIVE_BYTES }, known, (from) => from === url)
  if (outcome.kind === 'pointer') return fault('bad_pointer', 'the file it points to points on')
  if (outcome.kind === 'failed' && outcome.reason === 'bad_redirect') {
    return fault('bad_pointer', 'the file it points to redirects')
  }
  return outcome
}
