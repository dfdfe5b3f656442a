import { test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { until } from '../support/upstream-world.js'
import { openWorld, readAnswer } from './support/world.js'

const seconds = (interval: number) => ({ interval, unit: 'seconds' }) as const

test('a question waits for the index of the feed within its time, else says that the feed was not searched', async (t) => {
  const sandbox = await startSandbox({ signals: 100 })
  const world = await openWorld(sandbox.hosts, sandbox.registryUrl, await temporaryFolder(t))
  t.teardown(async () => {
    await world.close()
    await sandbox.close()
  })
  const { upstreams, feed, discovery, judge, providers, ask } = world
  await upstreams.start()
  await until(
    'feeds are mirrored',
    () => upstreams.statuses().filter(({ state }) => state === 'fresh').length >= 3,
  )
  providers.want(upstreams.providerDomains())
  await providers.settled()
  const snapshot = buildSnapshot({ slices: upstreams.slices(), judge: judge() })
  feed.publish(snapshot, Date.now())

  const early = readAnswer(await ask({ signal_spec: 'mortgage seekers', time_budget: seconds(1) }))
  t.match(early.incomplete?.[0], { scope: 'signals', description: /cannot be searched yet/ })
  t.match(early.message, /not searched yet/)

  const waiting = ask({ signal_spec: 'student loans', time_budget: seconds(60) })
  await discovery.publish(snapshot)
  const answer = readAnswer(await waiting)
  t.match(answer.signals[0]?.name, /Student Loan/)
  t.notMatch(answer.incomplete ?? [], [{ description: /cannot be searched yet/ }])
  t.notMatch(answer.message, /not searched yet/)

  const newer = buildSnapshot({ slices: upstreams.slices().slice(0, 1), judge: judge() })
  feed.publish(newer, Date.now())
  const indexing = discovery.publish(newer)
  const next = readAnswer(await ask({ signal_spec: 'gym members', time_budget: seconds(60) }))
  t.notMatch(
    next.incomplete ?? [],
    [{ description: /cannot be searched yet/ }],
    'it waited for the newer one too',
  )
  await indexing
})
