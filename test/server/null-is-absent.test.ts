import { test } from 'tap'
import { startServer } from '../support/server-fixture.js'

const wholesale = { discovery_mode: 'wholesale', pagination: { max_results: 5 } }

test('a walk restarts from cursor null, and a destination copied from a deployment may have account null', async (t) => {
  const { call } = await startServer(t)
  const first = await call('get_signals', wholesale)
  const again = await call('get_signals', { ...wholesale, pagination: { max_results: 5, cursor: null } })
  t.equal(again.status, 'completed', JSON.stringify(again.adcp_error))
  t.same(again.signals, first.signals)

  const to = (account: object) => ({ destinations: [{ type: 'platform', platform: 'dsp', ...account }] })
  const plain = await call('get_signals', { ...wholesale, ...to({}) })
  const copied = await call('get_signals', { ...wholesale, ...to({ account: null }) })
  t.equal(copied.status, 'completed', JSON.stringify(copied.adcp_error))
  t.equal(copied.wholesale_feed_version, plain.wholesale_feed_version)
  t.same(copied.signals, plain.signals)
})
