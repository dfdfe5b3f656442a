/** Offers for the tests of merging. */
import type { Verdict } from '../../src/authz/rules/verdict.js'
import type { Definition } from '../../src/merge/definition.js'
import type { Identity } from '../../src/merge/identity.js'
import { type MergedSignal, mergeSignal } from '../../src/merge/merged-signal.js'
import type { Offer } from '../../src/merge/offer.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import type { Row } from '../feed/reader.js'
import { AUTHORIZED, agentUrl, listing } from '../feed/world.js'

export const IDENTITY: Identity = { kind: 'provider', domain: 'provider.example', id: 's' }

/** One upstream's way to sell the signal `s` of provider.example. */
export function offer(upstream: string, more: Partial<Listing> = {}, verdict: Verdict = AUTHORIZED): Offer {
  const row = listing('s', more)
  const bytes = Buffer.byteLength(JSON.stringify(row))
  return { upstream, agentUrl: agentUrl(upstream), mode: 'wholesale', listing: row, bytes, verdict }
}

export type Options = {
  definition?: Definition
  policy?: 'strict' | 'lenient' | 'observe'
  identity?: Identity
}

export function merge(offers: readonly Offer[], options: Options = {}): MergedSignal {
  const signal = mergeSignal(
    options.identity ?? IDENTITY,
    offers,
    options.policy ?? 'strict',
    options.definition,
  )
  if (signal.kind === 'withheld') throw new Error(`a signal was expected, it is withheld: ${signal.reason}`)
  return signal
}

/** A row's JSON without its closing brace. */
export function rowText({
  opening,
  placed,
  tail,
}: Pick<MergedSignal, 'opening' | 'placed' | 'tail'>): string {
  return opening + placed + tail
}

export function rowOf(offers: readonly Offer[], options: Options = {}): Row {
  return JSON.parse(`${rowText(merge(offers, options))}}`) as Row
}
