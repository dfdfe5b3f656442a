/** What was asked for and is not there is named, with what is near to it. */
import { test } from 'tap'
import { startWorld } from '../support/federation.js'

test('what is not there is named, with what was probably meant', async (t) => {
  const world = await startWorld({ signals: 120 })
  t.teardown(() => world.close())
  const warningsOf = async (input: object) => {
    const { status, errors = [] } = await world.wholesale(input)
    t.equal(status, 'completed')
    return errors
  }
  t.match(await warningsOf({ filters: { data_providers: ['motorleger.example'] } }), [
    { code: 'REFERENCE_NOT_FOUND', field: 'filters.data_providers[0]', suggestion: /motorledger\.example/ },
  ])
  t.match(await warningsOf({ destinations: [{ type: 'platform', platform: 'trade-desk' }] }), [
    { code: 'REFERENCE_NOT_FOUND', field: 'destinations[0].platform', suggestion: /"the-trade-desk"/ },
  ])
  t.same(
    await warningsOf({ filters: { data_providers: ['motorledger.example'] } }),
    [],
    'a provider that is there',
  )

  const { signals = [] } = await world.wholesale()
  const there = signals[0]?.signal_ref
  const missing = {
    scope: 'data_provider',
    data_provider_domain: 'motorledger.example',
    signal_id: 'no_such_id',
  }
  const answer = await world.call('get_signals', { signal_refs: [there, missing] })
  t.equal(answer.signals?.length, 1)
  t.match(answer.errors, [
    {
      code: 'REFERENCE_NOT_FOUND',
      severity: 'warning',
      field: 'signal_refs[1]',
      message: /signal_refs\[1\]/,
    },
  ])
  t.notMatch(JSON.stringify(answer.errors), /no_such_id/, 'what was sent is not repeated')
})
