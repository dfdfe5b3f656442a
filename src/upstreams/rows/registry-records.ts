/**
 * What a registry's listing of signals agents says: bounded, a broken record skipped and named. Nothing in a record is a
 * gate: health comes from a crawler without credentials. Pure, so a thread can do it; it also writes the records as they are saved, and
 * sums them up, because the thread that serves compares each answer with the one before.
 */
import { hash } from 'node:crypto'
import { boundedText, isRecord, tryParseJson } from '../../adcp/json.js'
import { redacted, shownUrl } from '../../adcp/redaction.js'
import { canonicalUrl } from '../../adcp/url.js'

const MAX_RECORDS = 10_000
const MAX_VALUES = 2_000_000 // ten thousand records with all that a registry may put into each
const MAX_DIAGNOSTICS = 100
const MAX_LISTING = 4 * 1024 * 1024 // characters of JSON, of all records: four hundred for each of ten thousand
const MAX_TEXT = 300
const MOST_PLACES = 8 // of one agent: each that is none costs a request when it is looked for
const MIN_IN_URL = 16 // a shorter header, such as a tenant's name, may be a word of an honest url

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

export type RegistryListing = {
  /** As listed: one agent may have several, and the policy decides which of them count (docs/upstreams.md). */
  records: readonly RegistryRecord[]
  /** The records as JSON. */
  written: Uint8Array
  /** Of what is written: listings of one digest have the same records. */
  digest: string
  /** How many agents the records are of. */
  agents: number
  /** Records that could not be used, in words. */
  diagnostics: readonly string[]
  etag?: string
  fetchedAt: number
}

function isVerified(record: Record<string, unknown>): boolean {
  return isRecord(record.compliance) && record.compliance.verified === true
}

/** What crawlers and forms make of a url: the capitals of its path, its closing slash or its `/mcp` are lost; never its query. */
function withoutManglings(url: string): string {
  const [place = '', ...query] = url.split(/(?=\?)/)
  const bare = place
    .toLowerCase()
    .replace(/\/+$/, '')
    .replace(/\/mcp$/, '')
  return bare + query.join('')
}

/** Whether `place` is the agent's url as it was before somebody mangled it. */
export function isItsPlace(place: string, agentUrl: string): boolean {
  const canonical = canonicalUrl(place)
  return canonical !== undefined && withoutManglings(canonical) === withoutManglings(agentUrl)
}

/** `others`: where further records of the same agent say that it is. */
type Places = { url: string; others?: readonly string[] }

/** Where it is looked for, in this order. */
export const placesOf = ({ url, others = [] }: Places): readonly string[] => [url, ...others]

/**
 * The first record of an agent describes it; another one says only where else it may be. Whoever lists an agent once more, with
 * its url spelled otherwise, so keeps nobody from finding it. It is looked for at its own url first: who is called is who is judged.
 */
export function together<T extends Places & { agentUrl: string }>(first: T, more: Places): T {
  const places = new Set([first, more].flatMap(placesOf))
  const own = places.delete(first.agentUrl) ? [first.agentUrl] : []
  const [url = first.url, ...others] = [...own, ...places].slice(0, MOST_PLACES)
  return { ...first, url, ...(others.length > 0 && { others }) }
}

function readRecord(record: unknown, secrets: readonly string[]): RegistryRecord | string {
  if (!isRecord(record)) return 'a record is not an object'
  if (record.type !== undefined && record.type !== 'signals') return `type ${boundedText(record.type, 20)}`
  const endpoint = boundedText(record.mcp_endpoint, 2_048)
  const url = boundedText(record.url, 2_048) ?? endpoint
  const agentUrl = url === undefined ? undefined : canonicalUrl(url)
  if (!url || !agentUrl) return `no usable url: ${url ? shownUrl(url) : 'none'}`
  const place = endpoint ?? url
  // Members write their own records, and the url is what providers authorize: who is called is who is judged.
  if (!isItsPlace(place, agentUrl)) {
    return `mcp_endpoint ${shownUrl(place)} is another place than url ${shownUrl(url)}`
  }
  // Somebody's url is not mended: without what it holds of ours it would be another place.
  if (secrets.some((one) => one.length >= MIN_IN_URL && (url.includes(one) || place.includes(one)))) {
    return 'the url holds what we showed the registry'
  }
  const word = (value: unknown) => {
    const text = boundedText(value, MAX_TEXT)
    return text && redacted(text, secrets)
  }
  const member = isRecord(record.member) ? word(record.member.slug) : undefined
  const online = isRecord(record.health) ? record.health.online : undefined
  return {
    url: place,
    agentUrl,
    name: word(record.name) ?? agentUrl,
    verified: isVerified(record),
    ...(member && { member }),
    ...(typeof online === 'boolean' && { online }),
  }
}

/** What is known of a listing by its records alone. */
type Listed = Pick<RegistryListing, 'records' | 'written' | 'digest' | 'agents'>

/** As many of the records as have room in a listing, from the first on. */
export function listedOf(all: readonly RegistryRecord[]): Listed {
  const texts: string[] = []
  let room = MAX_LISTING
  for (const record of all) {
    const text = JSON.stringify(record)
    room -= text.length
    if (room < 0) break
    texts.push(text)
  }
  const records = all.slice(0, texts.length)
  const written = new TextEncoder().encode(`[${texts.join()}]`) // in memory of its own, which can be handed over
  const agents = new Set(records.map(({ agentUrl }) => agentUrl)).size
  return { records, written, digest: hash('sha256', written), agents }
}

/** What the bytes that a registry sent list; undefined when they are no listing. `secrets`: what the registry was shown. */
export function readListing(
  bytes: Uint8Array,
  secrets: readonly string[] = [],
): (Listed & Pick<RegistryListing, 'diagnostics'>) | undefined {
  const body = tryParseJson(bytes, MAX_VALUES)
  if (!isRecord(body) || !Array.isArray(body.agents)) return undefined
  const diagnostics: string[] = []
  const records: RegistryRecord[] = []
  for (const [at, raw] of body.agents.slice(0, MAX_RECORDS).entries()) {
    const record = readRecord(raw, secrets)
    if (typeof record !== 'string') records.push(record)
    else if (diagnostics.length < MAX_DIAGNOSTICS)
      diagnostics.push(redacted(`agents[${at}]: ${record}`, secrets))
  }
  if (body.agents.length > MAX_RECORDS) diagnostics.push(`only the first ${MAX_RECORDS} records were read`)
  const listed = listedOf(records)
  const leftOut = records.length - listed.records.length
  if (leftOut > 0)
    diagnostics.push(`${leftOut} records were left out: all of them are more than ${MAX_LISTING} characters`)
  return { ...listed, diagnostics }
}
