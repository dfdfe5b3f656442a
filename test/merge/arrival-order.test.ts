import fc from 'fast-check'
import { test } from 'tap'
import { mergeSignal } from '../../src/merge/merged-signal.js'
import { anyListing } from '../feed/arbitrary.js'
import { AUTHORIZED, UNAUTHORIZED, UNVERIFIABLE } from '../feed/world.js'
import { proven } from '../support/proven.js'
import { IDENTITY, offer, rowText } from './offers.js'

const anyOffers = fc.array(
  fc
    .record({
      upstream: fc.constantFrom('alpha', 'beta', 'gamma', 'delta'),
      listing: anyListing,
      verdict: fc.constantFrom(AUTHORIZED, UNAUTHORIZED, UNVERIFIABLE),
    })
    .map(({ upstream, listing, verdict }) => offer(upstream, listing, verdict)),
  { minLength: 1, maxLength: 6 },
)
const anyPolicy = fc.constantFrom('strict' as const, 'lenient' as const, 'observe' as const)

test('the same offers give the same bytes in any order of arrival', (t) => {
  const shuffled = anyOffers.chain((offers) =>
    fc.tuple(fc.constant(offers), fc.shuffledSubarray(offers, { minLength: offers.length })),
  )
  proven(
    t,
    250,
    fc.property(shuffled, anyPolicy, ([offers, again], policy) => {
      const bytes = (from: typeof offers) => {
        const signal = mergeSignal(IDENTITY, from, policy)
        return signal.kind === 'signal' ? rowText(signal) : signal.reason
      }
      return bytes(offers) === bytes(again)
    }),
  )
  t.end()
})

test('an offer that is not authorized changes no byte of a signal that has an authorized one, under any policy', (t) => {
  proven(
    t,
    250,
    fc.property(anyOffers, anyPolicy, (offers, policy) => {
      const entitled = offers.filter(({ verdict }) => verdict.outcome === 'authorized')
      fc.pre(entitled.length > 0)
      const all = mergeSignal(IDENTITY, offers, policy)
      const alone = mergeSignal(IDENTITY, entitled, policy)
      if (all.kind === 'withheld' || alone.kind === 'withheld') return all.kind === alone.kind
      return rowText(all) === rowText(alone)
    }),
  )
  t.end()
})
