import { test } from 'tap'
import { startWorld } from '../support/federation.js'

test('a brief question right after the start finds what the feed holds', async (t) => {
  const world = await startWorld({ signals: 2_400 })
  t.teardown(() => world.close())
  const question = { adcp_version: '3.1', signal_spec: 'mortgage seekers' }
  t.equal((await fetch(`${world.federation.url}/readyz`)).status, 200)
  const answer = await world.call('get_signals', {
    ...question,
    time_budget: { interval: 20, unit: 'seconds' },
  })
  t.match(answer.signals?.[0], { name: /Mortgage Seekers/ })
  await world.restart()
  const again = await world.call('get_signals', {
    ...question,
    time_budget: { interval: 20, unit: 'seconds' },
  })
  t.match(again.signals?.[0], { name: /Mortgage Seekers/ })
  t.notMatch(again.incomplete ?? [], [{ description: /cannot be searched yet/ }])
})
