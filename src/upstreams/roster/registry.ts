/**
 * Reads one registry's listing of signals agents (specification, "Registry listing"; docs/protocol.md#registry):
 * conditional, bounded, a broken record skipped and named. Nothing in a record is a gate: health comes from a crawler
 * without credentials.
 */
import { isRecord } from '../../adcp/json.js'
import { shownUrl } from '../../adcp/redaction.js'
import { agentUrlOf } from '../../adcp/url.js'
import type { Send } from '../../net/send.js'
import { networkFailure, statusFailure } from '../agent/rpc.js'
import { boundedText, tryParseJson } from '../rows/json.js'
import type { UpstreamFailure } from '../status.js'

const MAX_BYTES = 32 * 1024 * 1024
const MAX_RECORDS = 10_000
const MAX_DIAGNOSTICS = 100
const MAX_TEXT = 300
const TIMEOUT_MS = 30_000

export type RegistryRecord = {
  /** As listed, where the agent is called when nothing else says so. */
  url: string
  /** Canonical: the agent's identity (docs/protocol.md#urls). */
  agentUrl: string
  name: string
  member?: string
  /** What the registry's crawler thinks; shown, never trusted. */
  online?: boolean
  verified: boolean
}

export type Listing = {
  records: readonly RegistryRecord[]
  /** Records that could not be used, in words. */
  diagnostics: readonly string[]
  etag?: string
  fetchedAt: number
}

export type RegistryOutcome =
  | { kind: 'listed'; listing: Listing }
  | { kind: 'unchanged' }
  | { kind: 'failed'; reason: UpstreamFailure; message: string; retryAfterMs?: number }

export type RegistryOptions = {
  send: Send
  url: string
  headers: Readonly<Record<string, string>>
  now(): number
}

function isVerified(record: Record<string, unknown>): boolean {
  return isRecord(record.compliance) && record.compliance.verified === true
}

/** What crawlers and forms make of a url: its capitals, its closing slash or its `/mcp` are lost. */
function withoutManglings(url: string): string {
  return url
    .toLowerCase()
    .replace(/\/+$/, '')
    .replace(/\/mcp$/, '')
}

/** Whether `place` is the agent's url as it was before somebody mangled it. */
export function isItsPlace(place: string, agentUrl: string): boolean {
  const canonical = agentUrlOf(place)
  return canonical !== undefined && withoutManglings(canonical) === withoutManglings(agentUrl)
}

function readRecord(record: unknown): RegistryRecord | string {
  if (!isRecord(record)) return 'a record is not an object'
  if (record.type !== undefined && record.type !== 'signals') return `type ${boundedText(record.type, 20)}`
  const endpoint = boundedText(record.mcp_endpoint, 2_048)
  const url = boundedText(record.url, 2_048) ?? endpoint
  const agentUrl = url === undefined ? undefined : agentUrlOf(url)
  if (!url || !agentUrl) return `no usable url: ${url ? shownUrl(url) : 'none'}`
  const place = endpoint ?? url
  // Members write their own records, and the url is what providers authorize: who is called is who is judged.
  if (!isItsPlace(place, agentUrl)) {
    return `mcp_endpoint ${shownUrl(place)} is another place than url ${shownUrl(url)}`
  }
  const member = isRecord(record.member) ? boundedText(record.member.slug, MAX_TEXT) : undefined
  const online = isRecord(record.health) ? record.health.online : undefined
  return {
    url: place,
    agentUrl,
    name: boundedText(record.name, MAX_TEXT) ?? agentUrl,
    verified: isVerified(record),
    ...(member && { member }),
    ...(typeof online === 'boolean' && { online }),
  }
}

/** Undefined when the body is no registry listing. */
export function readListing(body: unknown): Pick<Listing, 'records' | 'diagnostics'> | undefined {
  if (!isRecord(body) || !Array.isArray(body.agents)) return undefined
  const diagnostics: string[] = []
  const byAgent = new Map<string, RegistryRecord>()
  for (const [at, raw] of body.agents.slice(0, MAX_RECORDS).entries()) {
    const record = readRecord(raw)
    if (typeof record === 'string') {
      if (diagnostics.length < MAX_DIAGNOSTICS) diagnostics.push(`agents[${at}]: ${record}`)
    } else if (!byAgent.has(record.agentUrl)) byAgent.set(record.agentUrl, record)
  }
  if (body.agents.length > MAX_RECORDS) diagnostics.push(`only the first ${MAX_RECORDS} records were read`)
  return { records: [...byAgent.values()], diagnostics }
}

export function createRegistry({ send, url, headers, now }: RegistryOptions) {
  const address = `${url.replace(/\/+$/, '')}/api/registry/agents?type=signals&health=true&compliance=true`

  /** Asks once; `held` is what an earlier call listed, and makes the request conditional. */
  async function fetch(held: Listing | undefined): Promise<RegistryOutcome> {
    const reply = await send({
      url: address,
      headers: { accept: 'application/json', ...headers, ...(held?.etag && { 'if-none-match': held.etag }) },
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
      redirects: 'same-site',
    })
    if (reply.kind === 'failed') return networkFailure(reply)
    if (reply.status === 304 && held) return { kind: 'unchanged' }
    const failure = statusFailure(reply)
    if (failure) return failure
    const listing = reply.status === 200 ? readListing(tryParseJson(reply.body)) : undefined
    if (!listing) {
      return {
        kind: 'failed',
        reason: 'protocol_error',
        message: `HTTP ${reply.status} is no registry listing`,
      }
    }
    const { etag } = reply.headers
    return { kind: 'listed', listing: { ...listing, fetchedAt: now(), ...(etag && { etag }) } }
  }

  return { fetch }
}
