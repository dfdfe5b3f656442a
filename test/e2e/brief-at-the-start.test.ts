import { test } from 'tap'
import { startWorld } from '../support/federation.js'

test('a brief question right after the start finds what the feed holds', async (t) => {
  const world = await startWorld({ signals: 96 })
  t.teardown(() => world.close())
  t.equal((await fetch(`${world.federation.url}/readyz`)).status, 200)
  for (const start of ['the first start', 'a restart']) {
    if (start === 'a restart') await world.restart()
    const { signals: [held] = [] } = await world.wholesale({ pagination: { max_results: 1 } })
    const answer = await world.call('get_signals', {
      adcp_version: '3.1',
      signal_spec: held?.name,
      time_budget: { interval: 60, unit: 'seconds' },
    })
    t.equal(answer.signals?.[0]?.name, held?.name, start)
    t.notMatch(answer.incomplete ?? [], [{ description: /cannot be searched yet/ }])
  }
})
