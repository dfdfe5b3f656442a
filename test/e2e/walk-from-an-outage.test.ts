import { test } from 'tap'
import { startOver } from '../support/federation-over.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

type Seen = { name: string; pricing_options?: unknown[] }

test('a page walk that began in a pricing outage says so to its last page, and a new one says nothing', async (t) => {
  let state: 'before' | 'out' | 'after' = 'before'
  const agent = await startMcpAgent((task) => {
    if (task === 'get_adcp_capabilities') return CAPABILITIES
    if (task !== 'get_signals') return undefined
    const count = state === 'before' ? 1 : 5
    const signals = Array.from({ length: count }, (_, at) => {
      const { pricing_options, ...bare } = row(at)
      return state === 'out' ? bare : { ...bare, pricing_options }
    })
    const incomplete = state === 'out' && { incomplete: [{ scope: 'pricing', description: 'away' }] }
    return { cache_scope: 'public', wholesale_feed_version: state, signals, ...incomplete }
  })
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'a', url: agent.url }], { defaults: { refresh: '1s' } })
  const page = (cursor?: string) =>
    over.wholesale({ pagination: { max_results: 2, ...(cursor && { cursor }) } })
  const priced = ({ signals }: { signals?: Seen[] }) =>
    (signals ?? []).filter(({ pricing_options }) => pricing_options?.length).length

  state = 'out'
  const first = await until(
    () => page(),
    (answer) => answer.pagination?.total_count === 5,
  )
  t.match(first.incomplete, [{ scope: 'pricing', description: /^a cannot give its prices at the moment/ }])
  state = 'after'
  const anew = await until(
    () => over.wholesale(),
    (answer) => priced(answer) === 5,
  )
  t.equal(anew.incomplete, undefined)
  let walked = first
  for (let pages = 1; walked.pagination?.cursor !== undefined; pages += 1) {
    walked = await page(walked.pagination.cursor)
    t.match(
      walked.incomplete,
      [{ scope: 'pricing', description: /^a could not give its prices when this was put together/ }],
      `page ${pages + 1}`,
    )
  }
  t.not(walked, first)
})

test('an outage in which no row changes is told while it lasts and not after it', async (t) => {
  let isOut = false
  const agent = await startMcpAgent((task) => {
    if (task === 'get_adcp_capabilities') return CAPABILITIES
    if (task !== 'get_signals') return undefined
    const { pricing_options, ...bare } = row(1)
    const told = isOut
      ? { signals: [bare], incomplete: [{ scope: 'pricing', description: 'away' }] }
      : { signals: [{ ...bare, pricing_options }] }
    return { cache_scope: 'public', wholesale_feed_version: `${isOut}`, ...told }
  })
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'a', url: agent.url }], { defaults: { refresh: '1s' } })
  const before = await over.wholesale()
  isOut = true
  const during = await until(over.wholesale, ({ incomplete }) => incomplete !== undefined)
  t.equal(during.wholesale_feed_version, before.wholesale_feed_version)
  isOut = false
  const after = await until(over.wholesale, ({ incomplete }) => incomplete === undefined)
  t.equal(after.wholesale_feed_version, before.wholesale_feed_version)
  t.equal(after.pricing_version, before.pricing_version)
})
