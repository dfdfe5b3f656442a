import { test } from 'tap'
import { mergeSignal } from '../../src/merge/merged-signal.js'
import { AUTHORIZED, UNAUTHORIZED, UNVERIFIABLE } from '../feed/world.js'
import { IDENTITY, offer, rowOf } from './offers.js'

const verdicts = { authorized: AUTHORIZED, unauthorized: UNAUTHORIZED, unverifiable: UNVERIFIABLE }

test('the policy decides what is published when no offer is authorized', (t) => {
  const published = (policy: 'strict' | 'lenient' | 'observe') =>
    Object.entries(verdicts)
      .filter(([, verdict]) => mergeSignal(IDENTITY, [offer('north', {}, verdict)], policy).kind === 'signal')
      .map(([name]) => name)
  t.same(published('strict'), ['authorized'])
  t.same(published('lenient'), ['authorized', 'unverifiable'])
  t.same(published('observe'), ['authorized', 'unauthorized', 'unverifiable'])
  t.end()
})

test('an offer that is published without authorization is marked, with the reason', (t) => {
  const [marked] = rowOf([offer('north', {}, UNVERIFIABLE)], { policy: 'lenient' }).ext.tributary.offers
  t.match(marked, { upstream: 'north', verdict: 'unverifiable', reason: 'no_file' })
  t.end()
})

test('provenance says who offers the signal, under which handle, and where', (t) => {
  const row = rowOf([
    offer('south', { deployments: [{ type: 'platform', platform: 'dv360', is_live: true }] }),
    { ...offer('north'), mode: 'enumerated' },
  ])
  const [north, south] = row.ext.tributary.offers
  t.match(north, {
    upstream: 'north',
    agent_url: 'https://north.example/mcp',
    verdict: 'authorized',
    mode: 'enumerated',
    deployments: ['platform:the-trade-desk'],
  })
  t.match(south, { upstream: 'south', deployments: ['platform:dv360'] })
  t.notOk('mode' in (south as object))
  for (const { pricing_option_id: id } of row.pricing_options ?? []) {
    t.equal([north, south].filter((one) => id.startsWith(`${one?.handle}.`)).length, 1)
  }
  t.end()
})

test('where contributing offers say otherwise, the conflict is on record', (t) => {
  const row = rowOf([offer('north', { name: 'N' }), offer('south', { name: 'S' })])
  t.equal(row.name, 'N')
  t.same(row.ext.tributary, {
    ...row.ext.tributary,
    conflicts: [{ field: 'name', upstreams: ['south'] }],
  })
  const defined = rowOf([offer('north', { name: 'N' })], { definition: { name: 'Defined' } })
  t.equal(defined.name, 'Defined')
  t.same(defined.ext.tributary, {
    ...defined.ext.tributary,
    conflicts: [{ field: 'name', upstreams: ['north'] }],
  })
  t.end()
})
