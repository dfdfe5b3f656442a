/**
 * What an A2A agent's card says: where to post, in which version, and its skills (docs/protocol.md#a2a). Pure, so a thread can
 * read it; whether an address may be followed is decided by whoever calls (upstreams/agent/a2a.ts).
 */
import { isRecord, tryParseJson } from '../../adcp/json.js'
import { type ListedTool, readToolList } from './tool-list.js'

const MAX_PLACES = 8
const MAX_URL = 2_048

export type A2aVersion = '1.0' | '0.3'

/** `url`: as the card names it, if it does. */
type Place = { url: string | undefined; version: A2aVersion }

/** `places`: where to post, best version first; never empty. `tools`: its skills. */
export type Card = { places: readonly Place[]; tools: readonly ListedTool[] | undefined }

function versionOf(text: unknown): A2aVersion | undefined {
  if (typeof text !== 'string') return undefined
  if (text.startsWith('1.')) return '1.0'
  return text.startsWith('0.') ? '0.3' : undefined
}

function urlIn(named: unknown): string | undefined {
  return typeof named === 'string' && named.length <= MAX_URL ? named : undefined
}

function placesIn(card: Record<string, unknown>): Place[] {
  const interfaces = Array.isArray(card.supportedInterfaces) ? card.supportedInterfaces.filter(isRecord) : []
  const listed = interfaces.flatMap((each) => {
    const version = versionOf(each.protocolVersion)
    return version && each.protocolBinding === 'JSONRPC' ? [{ url: urlIn(each.url), version }] : []
  })
  const top = versionOf(card.protocolVersion) ?? '0.3'
  const whole = typeof card.url === 'string' ? [{ url: urlIn(card.url), version: top }] : []
  const all = [...listed, ...whole].sort((a, b) => b.version.localeCompare(a.version))
  return all.slice(0, MAX_PLACES)
}

/** Undefined when the bytes are no card: anything may stand at a well-known path. `secrets`: what the agent was sent. */
export function readCard(body: Uint8Array, secrets: readonly string[]): Card | undefined {
  const card = tryParseJson(body)
  if (!isRecord(card) || typeof card.name !== 'string') return undefined
  const places = placesIn(card)
  return places.length > 0 ? { places, tools: readToolList(card.skills, secrets) } : undefined
}
