/**
 * The tokens under which an agent gives its feed: what they say of two answers, and for how long they are not believed
 * (docs/decisions.md#a-token-is-checked).
 */
import type { Payload } from '../agent/agent.js'

const MAX_TOKEN = 512 // characters; it is kept, and sent with every poll
const DISTRUSTED_MS = 7 * 24 * 60 * 60 * 1_000

export type Tokens = { feedVersion?: string; pricingVersion?: string; cacheScope?: string }

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_TOKEN ? value : undefined
}

/** A token that is longer than may be kept is none. */
export function tokensOf(payload: Payload): Tokens {
  const feedVersion = text(payload.wholesale_feed_version)
  const pricingVersion = text(payload.pricing_version)
  const cacheScope = text(payload.cache_scope)
  return {
    ...(feedVersion && { feedVersion }),
    ...(pricingVersion && { pricingVersion }),
    ...(cacheScope && { cacheScope }),
  }
}

/**
 * Whether an answer is of another feed, by its tokens or by whom it is for. One without them says nothing about a change: agents that
 * do not declare versioning may leave them out.
 */
export function moved(known: Tokens, told: Tokens): boolean {
  const differs = (a?: string, b?: string) => a !== undefined && b !== undefined && a !== b
  return (
    differs(known.feedVersion, told.feedVersion) ||
    differs(known.pricingVersion, told.pricingVersion) ||
    differs(known.cacheScope, told.cacheScope)
  )
}

/** Both came with one token, which says of both that they are the same. */
export function isSameVersion(a: Tokens, b: Tokens): boolean {
  return (
    a.feedVersion !== undefined && a.feedVersion === b.feedVersion && a.pricingVersion === b.pricingVersion
  )
}

/** Whether an agent's tokens are not believed, because its rows changed under an unchanged token in the last seven days. */
export function isDistrusted({ caughtAt }: { readonly caughtAt?: number }, now: number): boolean {
  return caughtAt !== undefined && now - caughtAt < DISTRUSTED_MS
}
