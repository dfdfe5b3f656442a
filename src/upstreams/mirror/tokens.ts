/** What an answer says of its version and its scope (specification, "Wholesale conditional-fetch rules"). */
import type { Payload } from '../agent/agent.js'

export type Tokens = { feedVersion?: string; pricingVersion?: string; cacheScope?: string }

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

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

/** A page without tokens says nothing about a change: agents that do not declare versioning may leave them out. */
export function moved(first: Tokens, page: Tokens): boolean {
  const differs = (a?: string, b?: string) => a !== undefined && b !== undefined && a !== b
  return differs(first.feedVersion, page.feedVersion) || differs(first.pricingVersion, page.pricingVersion)
}

/** Both came with one token, which says of both that they are the same. */
export function isSameVersion(a: Tokens, b: Tokens): boolean {
  return (
    a.feedVersion !== undefined && a.feedVersion === b.feedVersion && a.pricingVersion === b.pricingVersion
  )
}

const DISTRUSTED_MS = 7 * 24 * 60 * 60 * 1_000

/** Its rows changed under an unchanged token not long ago: its tokens are not believed. */
export function isDistrusted({ caughtAt }: { readonly caughtAt?: number }, now: number): boolean {
  return caughtAt !== undefined && now - caughtAt < DISTRUSTED_MS
}
