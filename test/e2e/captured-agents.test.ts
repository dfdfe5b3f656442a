import { pino } from 'pino'
import { test } from 'tap'
import { startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { captureFolders, hasCaptures, startReplay } from '../support/upstream-captures.js'
import { tempFolder } from '../support/upstream-world.js'

const skip = !hasCaptures && '../shared/adcp/captures is absent'

test('agents as they were captured are federated side by side, each usable row of each', {
  skip,
}, async (t) => {
  const replays = await Promise.all(
    captureFolders().map(async (id) => ({ id, agent: await startReplay(id) })),
  )
  t.teardown(() => Promise.all(replays.map(({ agent }) => agent.close())))
  const config = {
    listen: { port: 0 },
    upstreams: replays.map(({ id, agent }) => ({ id, url: agent.url, seeds: ['luxury'] })),
    // Their providers are not there: what they offer is shown as unverifiable.
    authorization: { policy: 'observe' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: { anonymous: 'metadata' },
    storage: { url: `file:${await tempFolder(t)}` },
  }
  const federation = await startFederation({
    config: parseConfig('test', JSON.stringify(config), {}),
    version: '0.0.0',
    clock: systemClock,
    random: Math.random,
    log: pino({ level: 'silent' }),
  })
  t.teardown(federation.close)
  await federation.ready
  const contributions = new Map(federation.contributions().map((each) => [each.upstream, each]))
  for (const { id, state, listings, dropped, problem } of federation.statuses()) {
    const { published = 0, reasons } = contributions.get(id) ?? {}
    t.comment(JSON.stringify({ id, state, listings, published, dropped, problem: problem?.reason }))
    const unpublished = [...(reasons ?? [])].reduce((sum, [, count]) => sum + count, 0)
    t.equal(published + unpublished, listings, `${id}: what is not published has a reason`)
    if (id === 'aao-training-agent-warming') t.match(problem, { reason: 'server_error' })
    else t.ok(published > 0 && !problem, `${id} is in the feed`)
  }
})
