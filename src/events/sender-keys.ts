/**
 * The keys of those who send us events: from an agent's capabilities to its operator's brand.json, from there to the key set
 * that the agent signs with (docs/protocol.md#signatures). Only what its own domain says counts.
 */
import { getDomain } from 'tldts'
import { isRecord } from '../adcp/json.js'
import { canonicalUrl } from '../adcp/url.js'
import { createRecent } from '../memory/recent.js'
import type { Send } from '../net/send.js'
import { createKeySets, type KeyAnswer } from '../signing/key.js'

const TIMEOUT_MS = 10_000
const MAX_BRAND_BYTES = 256 * 1_024
const MOST_SENDERS = 10_000
const BRAND_AGE_MS = 10 * 60_000
const COOLDOWN_MS = 30_000 // a sender whose brand.json cannot be read is not asked for it with each of its signatures
const DEFAULT_KEYS = '/.well-known/jwks.json'

export type Sender = {
  /** Canonical. */
  agentUrl: string
  brandJsonUrl: string
}

type Known = { triedAt: number; readAt?: number; keysAt?: string; keyOf?: ReturnType<typeof createKeySets> }

const siteOf = (url: string) => getDomain(new URL(url).hostname) ?? new URL(url).hostname

/** Where the agent's keys are, as its operator's brand.json says; undefined when it names the agent not at all, or twice. */
function keysNamedIn(body: Uint8Array, agentUrl: string): string | undefined {
  try {
    const brand: unknown = JSON.parse(Buffer.from(body).toString())
    const agents = isRecord(brand) && Array.isArray(brand.agents) ? brand.agents.filter(isRecord) : []
    const own = agents.filter(({ url }) => typeof url === 'string' && canonicalUrl(url) === agentUrl)
    const [{ jwks_uri: named } = {}] = own
    if (own.length !== 1) return undefined
    return typeof named === 'string' ? named : new URL(DEFAULT_KEYS, agentUrl).href
  } catch {
    return undefined // it is no brand.json
  }
}

/** Gives the look-up of a key by its id; what was read of a sender is remembered for a while. */
export function createSenderKeys({ send, now }: { send: Send; now(): number }) {
  const senders = createRecent<Known>(MOST_SENDERS) // by canonical url

  async function follow({ agentUrl, brandJsonUrl }: Sender, known: Known): Promise<void> {
    known.triedAt = now()
    if (!URL.canParse(brandJsonUrl) || siteOf(brandJsonUrl) !== siteOf(agentUrl)) return
    const reply = await send({ url: brandJsonUrl, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BRAND_BYTES })
    const keysAt =
      reply.kind === 'reply' && reply.status === 200 ? keysNamedIn(reply.body, agentUrl) : undefined
    if (keysAt === undefined || !URL.canParse(keysAt)) return
    known.readAt = now()
    if (keysAt === known.keysAt) return
    known.keysAt = keysAt
    known.keyOf = createKeySets({ sources: [{ owner: agentUrl, url: keysAt }], send, now })
  }

  /** The sender's key of this id. */
  return async (sender: Sender, keyid: string): Promise<KeyAnswer> => {
    const known = senders.get(sender.agentUrl) ?? { triedAt: Number.NEGATIVE_INFINITY }
    senders.set(sender.agentUrl, known)
    const isOld = known.readAt === undefined || now() - known.readAt >= BRAND_AGE_MS
    if (isOld && now() - known.triedAt >= COOLDOWN_MS) await follow(sender, known)
    return known.keyOf ? await known.keyOf(keyid, sender.agentUrl) : 'unavailable'
  }
}
