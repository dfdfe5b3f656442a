/**
 * What a registry's listing of signals agents says: bounded, a broken record skipped and named. Nothing in a record is a
 * gate: health comes from a crawler without credentials. Pure.
 */
import { isRecord } from '../../adcp/json.js'
import { shownUrl } from '../../adcp/redaction.js'
import { agentUrlOf } from '../../adcp/url.js'
import { boundedText, tryParseJson } from '../rows/json.js'

const MAX_RECORDS = 10_000
const MAX_VALUES = 2_000_000 // ten thousand records with all that a registry may put into each
const MAX_DIAGNOSTICS = 100
const MAX_TEXT = 300

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

/** The same of the bytes that a registry sent. */
export function readListingBytes(body: Uint8Array): ReturnType<typeof readListing> {
  return readListing(tryParseJson(body, MAX_VALUES))
}
