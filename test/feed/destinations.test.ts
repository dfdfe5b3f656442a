import { test } from 'tap'
import type { Deployment } from '../../src/adcp/signal.js'
import { ask, feedOf, ids } from './feed-of.js'
import { listing } from './world.js'

const on = (platform: string, account?: string): Deployment => ({
  type: 'platform',
  platform,
  is_live: false,
  ...(account ? { account } : {}),
})
const feed = feedOf([
  listing('a', { deployments: [on('one')] }),
  listing('ab', { deployments: [on('one'), on('two')] }),
  listing('c', { deployments: [on('three', 'acc1')] }),
  listing('agent', { deployments: [{ type: 'agent', agent_url: 'https://sales.example', is_live: false }] }),
])
const platform = (name: string, account?: string) => ({
  type: 'platform' as const,
  platform: name,
  ...(account ? { account } : {}),
})

test('a signal is returned when it is available on any asked destination; its others are left out', (t) => {
  const { signals } = ask(feed, { destinations: [platform('two'), platform('three')] })
  t.same(ids(signals), ['ab', 'c'])
  for (const { deployments, ext } of signals) {
    t.equal(deployments.length, 1)
    t.not(deployments[0]?.platform, 'one')
    t.notMatch(JSON.stringify(ext), /platform:one/)
  }
  t.end()
})

test('PARTIAL_COVERAGE says which signals lack a requested destination', (t) => {
  const { warnings, signals } = ask(feed, { destinations: [platform('one'), platform('two')] })
  const lacking = signals.find(({ signal_ref }) => signal_ref.signal_id === 'a')
  t.match(warnings, [
    {
      code: 'PARTIAL_COVERAGE',
      severity: 'warning',
      details: { signals: [lacking?.signal_agent_segment_id] },
    },
  ])
  t.same(ask(feed, { destinations: [platform('one')] }).warnings, [])
  t.end()
})

test('accounts and agent urls are part of the destination', (t) => {
  t.same(ids(ask(feed, { destinations: [platform('three', 'acc1')] }).signals), ['c'])
  t.same(ids(ask(feed, { destinations: [platform('three', 'acc2')] }).signals), [])
  t.same(
    ids(ask(feed, { destinations: [{ type: 'agent', agent_url: 'https://SALES.example:443/' }] }).signals),
    ['agent'],
  )
  t.same(ids(ask(feed, { destinations: [{ type: 'agent', agent_url: 'nonsense' }] }).signals), [])
  t.end()
})
