import { test } from 'tap'
import type { Row } from '../feed/reader.js'
import { UNAUTHORIZED, UNVERIFIABLE } from '../feed/world.js'
import { offer, rowOf } from './offers.js'

const consent = { consent_basis: ['consent'], art9_basis: 'explicit_consent' }

const conflictsOf = ({ ext: { tributary } }: Row) => (tributary as { conflicts?: object[] }).conflicts

test("a published definition's basis stands, whatever offers say", (t) => {
  const row = rowOf([offer('north', consent)], { definition: { consent_basis: ['contract'] } })
  t.same(row.consent_basis, ['contract'])
  t.notOk('art9_basis' in row, 'the provider is silent, so nobody else speaks for it')
  t.same(conflictsOf(row), [
    { field: 'consent_basis', upstreams: ['north'] },
    { field: 'art9_basis', upstreams: ['north'] },
  ])
  t.end()
})

test('without a definition, offers that agree are believed', (t) => {
  const row = rowOf([
    offer('north', { consent_basis: ['consent', 'contract'] }),
    offer('south', { consent_basis: ['contract', 'consent'] }),
    offer('west'),
  ])
  t.same(row.consent_basis, ['consent', 'contract'])
  t.end()
})

test('offers that disagree leave the basis absent, and the conflict is named', (t) => {
  const row = rowOf([offer('north', consent), offer('south', { consent_basis: ['contract'] })])
  t.notOk('consent_basis' in row)
  t.equal(row.art9_basis, 'explicit_consent')
  t.same(conflictsOf(row), [{ field: 'consent_basis', upstreams: ['north', 'south'] }])
  t.end()
})

test('where the provider cannot be asked, rows that agree are believed; one that it denies never speaks for it', (t) => {
  const unverified = [offer('north', consent, UNVERIFIABLE), offer('south', {}, UNVERIFIABLE)]
  t.match(rowOf(unverified, { policy: 'lenient' }), consent)
  const denied = rowOf([offer('north', consent, UNAUTHORIZED)], { policy: 'observe' })
  t.notOk('consent_basis' in denied)
  t.same(conflictsOf(denied), [
    { field: 'consent_basis', upstreams: ['north'] },
    { field: 'art9_basis', upstreams: ['north'] },
  ])
  t.end()
})

test("what a signal means for age is the provider's own word, and goes with its restriction", (t) => {
  const predicate = { age: { min: 18, max: 34, include_unknown: false } }
  const about = { demographic_predicate: predicate, restricted_attributes: ['age'] }
  t.same(rowOf([offer('north', about)]).demographic_predicate, predicate)
  t.notOk('demographic_predicate' in rowOf([offer('north', { demographic_predicate: predicate })]))
  t.notOk(
    'demographic_predicate' in rowOf([offer('north', about)], { definition: { name: 'n' } }),
    'not said there',
  )
  const other = { ...about, demographic_predicate: { age: { min: 21, include_unknown: false } } }
  t.notOk('demographic_predicate' in rowOf([offer('north', about), offer('south', other)]), 'they disagree')
  t.end()
})
