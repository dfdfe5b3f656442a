import { test } from 'tap'
import { nearMisses } from '../../src/feed/filter-warnings.js'
import { wordTest } from '../../src/feed/narrowing.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'

const platforms = (...names: string[]) => names.map((platform) => ({ type: 'platform' as const, platform }))

test('of a long request only what is looked at tells it from another one', (t) => {
  const snapshot = {
    facts: { providers: [''], domains: [''] },
    deployments: { destinations: ['platform:dv360'] },
  } as unknown as Snapshot
  const first = nearMisses(snapshot, { destinations: platforms('dv361', 'b', 'c', 'd') })
  t.match(first, [{ field: 'destinations[0].platform' }, {}, {}])
  t.equal(nearMisses(snapshot, { destinations: platforms('dv361', 'b', 'c', 'e') }), first)
  t.not(nearMisses(snapshot, { destinations: platforms('dv361', 'b', 'e') }), first)
  const countries = nearMisses(snapshot, { countries: ['DE', 'FR', 'IT', 'XX'] })
  t.match(countries, [{ field: 'countries[3]' }], 'of countries all are looked at')
  t.same(nearMisses(snapshot, { countries: ['DE', 'FR', 'IT', 'ES'] }), [])
  t.end()
})

test('long questions are remembered up to a size, whatever their number', (t) => {
  const words = ['platform:dv360']
  let made = 0
  const ask = (asked: readonly string[]) =>
    wordTest(words, asked, () => {
      made += 1
      return () => true
    })
  ask(['short'])
  ask(['short'])
  t.equal(made, 1)
  for (let at = 0; at < 10; at++) ask([`${at}${'x'.repeat(1_000_000)}`])
  ask([`9${'x'.repeat(1_000_000)}`])
  t.equal(made, 11, 'the latest is known')
  ask([`0${'x'.repeat(1_000_000)}`])
  t.equal(made, 12, 'the first gave way')
  t.end()
})
