import { test } from 'tap'
import type { Deployment } from '../../src/adcp/signal.js'
import { matchesDestination } from '../../src/merge/deployments.js'
import { merge, offer, rowOf } from './offers.js'

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
  t.notMatch(`${signal.head}${signal.tail}`, /activation_key|secret/)
  t.same(signal.deployments[0]?.activationKey, { type: 'segment_id', segment_id: 'secret' })
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
