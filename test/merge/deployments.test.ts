import fc from 'fast-check'
import { test } from 'tap'
import type { Deployment } from '../../src/adcp/signal.js'
import { matchesDestination } from '../../src/merge/deployments.js'
import { proven } from '../support/proven.js'
import { merge, offer, rowOf, rowText } from './offers.js'

const platform = (more: Partial<Deployment> = {}): Deployment =>
  ({
    type: 'platform',
    platform: 'dv360',
    is_live: false,
    ...more,
  }) as Deployment

test('a target is deployed once: live wins, then the shortest estimate, then upstream order', (t) => {
  const row = rowOf([
    offer('north', {
      deployments: [platform({ estimated_activation_duration_minutes: 60 }), platform({ account: 'a' })],
    }),
    offer('south', {
      deployments: [
        platform({ estimated_activation_duration_minutes: 5 }),
        platform({ account: 'a', is_live: true }),
      ],
    }),
  ])
  t.same(row.deployments, [
    { type: 'platform', platform: 'dv360', is_live: false, estimated_activation_duration_minutes: 5 },
    { type: 'platform', platform: 'dv360', account: 'a', is_live: true },
  ])
  t.end()
})

test('agents are one target by their canonical url', (t) => {
  const agent = (agent_url: string, is_live: boolean): Deployment => ({ type: 'agent', agent_url, is_live })
  const row = rowOf([
    offer('north', { deployments: [agent('https://SALES.example:443', false)] }),
    offer('south', {
      deployments: [agent('https://sales.example/', true), agent('http://sales.example/', false)],
    }),
  ])
  t.same(row.deployments, [agent('http://sales.example/', false), agent('https://sales.example/', true)])
  t.end()
})

test('activation keys never stand in the row', (t) => {
  const keyed = platform({ is_live: true, activation_key: { type: 'segment_id', segment_id: 'secret' } })
  const signal = merge([offer('north', { deployments: [keyed] })])
  t.notMatch(rowText(signal), /activation_key|secret/)
  t.same(signal.deployments[0]?.activationKey, { type: 'segment_id', segment_id: 'secret' })
  t.end()
})

test('a live offer without a key does not hide the key of a live offer behind it', (t) => {
  const live = platform({ is_live: true })
  const keyed = (segment_id: string, is_live = true) =>
    platform({ is_live, activation_key: { type: 'segment_id', segment_id } })
  const keyOf = (...deployments: Deployment[]) =>
    merge(
      deployments.map((one, at) => offer(['east', 'north', 'south'][at] as string, { deployments: [one] })),
    ).deployments.map(({ activationKey }) => activationKey)
  t.same(keyOf(live, keyed('second')), [{ type: 'segment_id', segment_id: 'second' }])
  t.same(keyOf(live, keyed('dead', false), keyed('third')), [{ type: 'segment_id', segment_id: 'third' }])
  t.same(keyOf(keyed('dead', false), live), [undefined])
  t.end()
})

test('which key is given does not depend on the order in which offers arrive', (t) => {
  const anyOffer = fc.record({
    is_live: fc.boolean(),
    key: fc.option(fc.constantFrom('k1', 'k2', 'k3'), { nil: undefined }),
  })
  const any = fc.array(anyOffer, { minLength: 1, maxLength: 4 })
  proven(
    t,
    300,
    fc.property(any, fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })), (given, chances) => {
      const offers = given.map(({ is_live, key }, at) =>
        offer(`upstream-${at}`, {
          deployments: [
            platform({
              is_live,
              ...(key && { activation_key: { type: 'segment_id', segment_id: key } }),
            } as Partial<Deployment>),
          ],
        }),
      )
      const shuffled = offers
        .map((one) => ({ one, at: chances.next().value as number }))
        .sort((a, b) => a.at - b.at)
        .map(({ one }) => one)
      const keyOf = (of: typeof offers) => merge(of).deployments[0]?.activationKey
      const expected = given.find(({ is_live, key }) => is_live && key)?.key
      const key = keyOf(shuffled) as { segment_id?: string } | undefined
      return key?.segment_id === expected && JSON.stringify(key) === JSON.stringify(keyOf(offers))
    }),
  )
  t.end()
})

test('a destination asked without an account is the target whatever the account', (t) => {
  t.ok(matchesDestination('platform:a', 'platform:a'))
  t.ok(matchesDestination('platform:a#1', 'platform:a'))
  t.ok(matchesDestination('platform:a', 'platform:a#1'), 'deployed for every account')
  t.notOk(matchesDestination('platform:a#1', 'platform:a#2'))
  t.notOk(matchesDestination('platform:ab', 'platform:a'))
  t.end()
})

test('a row that names one target twice says the same in any order', (t) => {
  const agent = (agent_url: string, segment_id: string, more: object = {}): Deployment => ({
    ...{ type: 'agent', agent_url, is_live: true },
    ...{ activation_key: { type: 'segment_id', segment_id }, ...more },
  })
  const twice = [
    agent('https://sales.example/', 'first', { deployed_at: '2026-01-02T03:04:05Z' }),
    agent('https://sales.example/', 'second'),
    agent('https://SALES.example:443', 'third'),
    platform({ estimated_activation_duration_minutes: 5 }),
    { ...platform(), estimated_activation_duration_minutes: 5, account: null } as unknown as Deployment,
  ]
  const said = (deployments: Deployment[], ...others: Parameters<typeof merge>[0]) => {
    const signal = merge([...others, offer('north', { deployments })])
    return [
      rowOf([...others, offer('north', { deployments })]).deployments,
      signal.deployments.map(({ activationKey }) => activationKey),
    ]
  }
  const before = offer('east', { deployments: [agent('https://sales.example', 'eastern')] })
  const [alone, behind] = [said(twice), said(twice, before)]
  t.match(behind[1], [{ segment_id: 'eastern' }, undefined], 'the order of upstreams comes first')
  proven(
    t,
    100,
    fc.property(fc.shuffledSubarray(twice, { minLength: twice.length }), (shuffled) => {
      t.same(said(shuffled), alone)
      t.same(said(shuffled, before), behind)
    }),
  )
  t.end()
})
