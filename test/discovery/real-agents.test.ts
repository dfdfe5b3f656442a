import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { asAsked } from '../../src/upstreams/asker.js'
import { createFanout } from '../../src/upstreams/fanout.js'
import {
  captureFolders,
  countRows,
  hasCaptures,
  invocation,
  readCaptures,
  startReplay,
} from '../support/upstream-captures.js'
import { configOf, openUpstreams, until } from '../support/upstream-world.js'

/** Rows that the captured agent answered to a question in words. */
function briefRows(folder: string): number {
  const briefs = readCaptures(folder).filter(({ request, http }) => {
    const call = invocation(request)
    return (
      call?.task === 'get_signals' && 'signal_spec' in call.args && !call.args.account && http?.status !== 401
    )
  })
  return Math.max(0, ...briefs.map(({ response }) => countRows(response)))
}

if (!hasCaptures)
  test('brief questions to real agents', { skip: '../shared/adcp/captures is absent' }, () => {})
else {
  for (const folder of captureFolders()) {
    test(`a question to a replay of ${folder} is answered in its dialect, or fails with a reason`, async (t) => {
      const agent = await startReplay(folder)
      t.teardown(agent.close)
      const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, seeds: ['luxury'] }]))
      await upstreams.start()
      const status = () => upstreams.statuses()[0]
      await until(
        'its dialect is known',
        () => status()?.state === 'fresh' || status()?.problem !== undefined,
      )
      const fanout = createFanout({ call: asAsked(upstreams.ask), clock: systemClock })
      t.teardown(fanout.close)
      const args = { discovery_mode: 'brief', signal_spec: 'luxury', pagination: { max_results: 50 } }
      const asked = [{ agentUrl: agent.url, args, scope: 'public', briefOnly: true }]
      const { answers, settled } = fanout.ask({ key: folder, asked, deadline: Date.now() + 60_000 })
      await settled()
      const answer = answers().get(agent.url)
      t.comment(JSON.stringify(answer, (name, value) => (name === 'slice' ? value.rows.count : value)))
      if (briefRows(folder) === 0) return t.match(answer?.kind, /answered|failed/)
      if (answer?.kind !== 'answered') return t.fail(`${folder}: ${answer?.kind}`)
      t.ok(answer.slice.rows.count > 0)
    })
  }
}
