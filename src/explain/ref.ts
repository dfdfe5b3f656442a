/** What a person may name a signal or an upstream by, read into what it can mean (docs/explain.md). */
import { agentUrlOf, canonicalUrl } from '../adcp/url.js'
import { handleKey, type Identity, identityKey, signalHandle, signalPart } from '../merge/identity.js'
import type { Roster } from '../upstreams/roster/roster.js'

const MAX_REF = 4_096

export type Meaning =
  /** `identity` is known when it was spelled out; `pins` is the text of an offer handle or option id. */
  | { kind: 'signal'; handle: string; identity?: Identity; pins?: string }
  | { kind: 'upstream'; agentUrl: string }
  /** Perhaps an upstream's own segment id. */
  | { kind: 'text' }

function ofIdentity(identity: Identity): Meaning {
  return { kind: 'signal', handle: signalHandle(identityKey(identity)), identity }
}

/** `roster` tells ids and urls of upstreams from other words. */
export function meaningOf(ref: string, { entries, excluded }: Roster): Meaning {
  const byId = entries.find(({ id }) => id === ref)
  if (byId) return { kind: 'upstream', agentUrl: byId.agentUrl }
  if (ref.length > MAX_REF) return { kind: 'text' }
  if (handleKey(signalPart(ref))) {
    const handle = signalPart(ref)
    return { kind: 'signal', handle, ...(ref !== handle && { pins: ref }) }
  }
  const [, sourceUrl, sourceId] = /^(https?:\/\/[^#]*)#([A-Za-z0-9_-]+)$/.exec(ref) ?? []
  const source = sourceUrl === undefined ? undefined : canonicalUrl(sourceUrl)
  if (source && sourceId) return ofIdentity({ kind: 'source', agentUrl: source, id: sourceId })
  const agentUrl = /^https?:\/\//.test(ref) ? agentUrlOf(ref) : undefined
  const known = [...entries, ...excluded].some(({ url }) => url === ref || agentUrlOf(url) === agentUrl)
  if (agentUrl && (known || entries.some((entry) => entry.agentUrl === agentUrl))) {
    return { kind: 'upstream', agentUrl }
  }
  const [, domain, id] = /^([^/\s]+\.[^/\s]+)\/([A-Za-z0-9_-]+)$/.exec(ref) ?? []
  if (domain && id) return ofIdentity({ kind: 'provider', domain: domain.toLowerCase(), id })
  return agentUrl ? { kind: 'upstream', agentUrl } : { kind: 'text' }
}

/** Whether an offer handle or an option id of ours speaks of the offer with this handle. */
export function isPinnedTo(pins: string, own: string): boolean {
  return pins === own || pins.startsWith(`${own}.`)
}
