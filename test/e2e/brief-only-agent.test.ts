import { test } from 'tap'
import { startWorld, type World } from '../support/federation.js'
import { until } from '../support/until.js'

const firstPage = (world: World) =>
  until(
    () => world.wholesale(),
    ({ signals = [] }) => signals.length > 0,
  )

test('a brief-only agent is enumerated through the providers that it declares, although nobody else names them', async (t) => {
  const world = await startWorld({
    signals: 96,
    config: () => ({
      registries: [],
      upstreams: [{ id: 'oldmill', url: 'https://signals.oldmill.example/mcp' }],
    }),
  })
  t.teardown(() => world.close())
  const page = await firstPage(world)
  t.ok(page.signals?.length, `${page.pagination?.total_count} signals`)
  for (const { ext } of page.signals ?? []) {
    t.match(ext.tributary.offers, [{ upstream: 'oldmill', verdict: 'authorized', mode: 'enumerated' }])
  }
})

test('what it may sell of a provider whose file cannot be read is asked of nobody, and named', async (t) => {
  const world = await startWorld({
    signals: 96,
    stopped: ['motorledger.example'],
    config: () => ({
      registries: [],
      upstreams: [{ id: 'oldmill', url: 'https://signals.oldmill.example/mcp' }],
    }),
  })
  t.teardown(() => world.close())
  const page = await firstPage(world)
  t.ok(page.signals?.length, 'what other providers grant is there')
  t.match(page.incomplete, [
    { description: /Signals of oldmill wait .*cannot be fetched: motorledger\.example/ },
  ])
})
