/**
 * The public keys of those who send us signed messages: from the configuration, or read from where they publish them. A
 * new key is found when its first signature arrives; a removed key stops working within minutes.
 */
import type { Send } from '../net/send.js'
import type { Jwk } from './key.js'
import type { FoundKey, KeyAnswer } from './verify.js'

const TIMEOUT_MS = 10_000
const MAX_BYTES = 64 * 1024
const MAX_AGE_MS = 10 * 60_000
const COOLDOWN_MS = 30_000 // for an unknown key id, and after a failure

type KeySource = { owner: string; keys: readonly Jwk[] } | { owner: string; url: string }

type KeySetsOptions = { sources: readonly KeySource[]; send: Send; now(): number }

type Published = { keys: readonly Jwk[]; readAt: number }

function keysIn(body: Uint8Array): readonly Jwk[] | undefined {
  try {
    const { keys } = JSON.parse(Buffer.from(body).toString()) as { keys?: unknown }
    return Array.isArray(keys) ? (keys as unknown[]).filter(isJwk) : undefined
  } catch {
    return undefined // the answer is not a key set
  }
}

function isJwk(value: unknown): value is Jwk {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** One owner's published keys; concurrent readers share one request. */
function createPublished(url: string, send: Send, now: () => number) {
  let known: Published | undefined
  let triedAt = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | undefined

  async function read(): Promise<void> {
    triedAt = now()
    const reply = await send({
      url,
      headers: { accept: 'application/json' },
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
    })
    const keys = reply.kind === 'reply' && reply.status === 200 ? keysIn(reply.body) : undefined
    if (keys) known = { keys, readAt: now() }
  }

  async function refresh(): Promise<void> {
    reading ??= read().finally(() => {
      reading = undefined
    })
    await reading
  }

  const fresh = () => (known && now() - known.readAt < MAX_AGE_MS ? known.keys : undefined)

  /** Undefined when no key set can be read. */
  return async (keyid: string): Promise<Jwk | 'unknown' | undefined> => {
    const found = fresh()?.find(({ kid }) => kid === keyid)
    if (found) return found
    if (now() - triedAt >= COOLDOWN_MS) await refresh()
    else await reading
    const keys = fresh()
    return keys && (keys.find(({ kid }) => kid === keyid) ?? 'unknown')
  }
}

/** Finds keys by id: those of `owner`; without an owner, the first source that has the id. */
export function createKeySets({ sources, send, now }: KeySetsOptions) {
  const finders = sources.map((source) => {
    const published = 'url' in source ? createPublished(source.url, send, now) : undefined
    const own = 'keys' in source ? source.keys : []
    return {
      owner: source.owner,
      find: async (keyid: string) =>
        published ? published(keyid) : (own.find(({ kid }) => kid === keyid) ?? ('unknown' as const)),
    }
  })

  return async (keyid: string, owner?: string): Promise<KeyAnswer> => {
    const asked = finders.filter((one) => owner === undefined || one.owner === owner)
    const found = await Promise.all(
      asked.map(async (one) => ({ owner: one.owner, jwk: await one.find(keyid) })),
    )
    const hit = found.find((one): one is FoundKey => one.jwk !== undefined && one.jwk !== 'unknown')
    if (hit) return hit
    return found.some(({ jwk }) => jwk === undefined) ? 'unavailable' : 'unknown'
  }
}
