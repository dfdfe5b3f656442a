/** Listings, slices and providers for the tests of this room: small, plain, and never more than the test says. */
import { hash } from 'node:crypto'
import type { Judge, Policy, ProviderView, Verdict } from '../../src/authz/rules/verdict.js'
import type { Reader } from '../../src/feed/query.js'
import type { Slab } from '../../src/upstreams/rows/slab.js'
import type { Listing, Slice, SliceMode } from '../../src/upstreams/rows/slice.js'

export const agentUrl = (upstream: string) => `https://${upstream}.example/mcp`

/** One chunk of exactly its size: thousands of small slices must not take thousands of large buffers. */
function slabOf(rows: readonly Buffer[]): Slab {
  const chunk = new Uint8Array(new SharedArrayBuffer(rows.reduce((sum, row) => sum + row.byteLength, 0)))
  const start = new Uint32Array(rows.length)
  let used = 0
  rows.forEach((row, at) => {
    chunk.set(row, used)
    start[at] = used
    used += row.byteLength
  })
  const length = Uint32Array.from(rows, (row) => row.byteLength)
  return { count: rows.length, chunks: [chunk], chunkOf: new Uint16Array(rows.length), start, length }
}

type SliceOptions = { mode?: SliceMode; scope?: string }

export function sliceOf(upstream: string, listings: readonly Listing[], options?: SliceOptions): Slice {
  return sliceOfTexts(
    upstream,
    listings.map((row) => JSON.stringify(row)),
    options,
  )
}

/** Listings as the upstream wrote them. */
export function sliceOfTexts(
  upstream: string,
  texts: readonly string[],
  { mode = 'wholesale', scope = 'public' }: SliceOptions = {},
): Slice {
  const rows = texts.map((text) => Buffer.from(text))
  const digest = (row: Buffer) => Buffer.from(hash('sha256', row), 'hex').readBigUInt64LE(0)
  return {
    upstream,
    agentUrl: agentUrl(upstream),
    scope,
    mode,
    rows: slabOf(rows),
    digests: BigUint64Array.from(rows, digest),
    dropped: {},
    walkedAt: 0,
  }
}

/** A listing of a provider's signal. */
export function listing(id: string, more: Partial<Listing> = {}, domain = 'provider.example'): Listing {
  return {
    signal_ref: { scope: 'data_provider', data_provider_domain: domain, signal_id: id },
    signal_agent_segment_id: `seg_${id}`,
    name: `Signal ${id}`,
    description: `What ${id} means`,
    signal_type: 'marketplace',
    data_provider: 'Provider Inc',
    coverage_percentage: 10,
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: false }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 2, currency: 'USD' }],
    ...more,
  }
}

export const AUTHORIZED: Verdict = { outcome: 'authorized', entries: [0] }
export const UNAUTHORIZED: Verdict = { outcome: 'unauthorized', reason: 'agent_not_listed' }
export const UNVERIFIABLE: Verdict = { outcome: 'unverifiable', reason: 'no_file' }

export type Says = {
  stamp?: string
  policy?: Policy
  decide?: (signalId: string, agentUrl: string) => Verdict
  definition?: ProviderView['definition']
}

/** One judge whose providers all say the same, or what `of` says of a domain. */
export function judgeThat(says: Says | ((domain: string) => Says) = {}): Judge {
  return (domain) => {
    const said = typeof says === 'function' ? says(domain) : says
    return {
      stamp: said.stamp ?? '',
      policy: said.policy ?? 'strict',
      decide: said.decide ?? (() => AUTHORIZED),
      definition: said.definition ?? (() => undefined),
    }
  }
}

export const buyer: Reader = { caller: 'buyer', visibility: 'full', grants: [] }
export const anonymous: Reader = { caller: '', visibility: 'metadata', grants: [] }
