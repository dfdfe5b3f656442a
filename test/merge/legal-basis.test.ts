import { test } from 'tap'
import { UNVERIFIABLE } from '../feed/world.js'
import { offer, rowOf } from './offers.js'

const consent = { consent_basis: ['consent'], art9_basis: 'explicit_consent' }

test("a published definition's basis stands, whatever offers say", (t) => {
  const row = rowOf([offer('north', consent)], { definition: { consent_basis: ['contract'] } })
  t.same(row.consent_basis, ['contract'])
  t.notOk('art9_basis' in row, 'the provider is silent, so nobody else speaks for it')
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
  t.same(row.ext.tributary, {
    ...row.ext.tributary,
    conflicts: [{ field: 'consent_basis', upstreams: ['north', 'south'] }],
  })
  t.end()
})

test('an unverified offer does not speak for the provider', (t) => {
  const row = rowOf([offer('north', consent, UNVERIFIABLE)], { policy: 'lenient' })
  t.notOk('consent_basis' in row)
  t.notOk('art9_basis' in row)
  t.end()
})
