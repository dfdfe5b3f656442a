import { setTimeout as wait } from 'node:timers/promises'
import { test } from 'tap'
import { type Said, startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const priced = (at: number, cpm: number, more: object = {}) =>
  row(at, {
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
    ...more,
  })

test('what happened to a signal is told to operators, also after it left and after a restart', async (t) => {
  const feed = wholesaleAgent([priced(1, 2), priced(2, 2)], 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'one', url: agent.url }])
  const { signals } = await over.wholesale()
  const handle = signals.find(({ name }: Said) => name === 'Signal 1').signal_agent_segment_id

  async function asked(): Promise<Said> {
    const answer = await over.get(`/console/api/signal?id=${handle}`)
    if (!answer.ok) throw new Error(`the page is answered with ${answer.status}`)
    return (await answer.json()) as Said
  }
  /** The agent's next state, and what is told when one change more is: it is kept after the feed is published. */
  async function after(rows: Record<string, unknown>[], version: string): Promise<Said[]> {
    const { changes: before } = await asked()
    feed.publish(rows, version)
    await over.post('/refresh?upstream=one')
    for (const end = Date.now() + 60_000; ; ) {
      const { changes } = await asked()
      if (changes.length > before.length) return changes
      if (Date.now() > end) throw new Error(`what ${version} changed is never told`)
    }
  }

  t.same((await asked()).changes, [], 'the first feed is no change')
  const [price] = await after([priced(1, 3), priced(2, 2)], 'v2')
  t.match(price, {
    kind: 'priced',
    fields: ['pricing_options'],
    before: { cpm: 2, currency: 'USD', sellers: 1 },
    after: { cpm: 3, currency: 'USD', sellers: 1 },
  })
  const more = { name: 'Signal 1, better', coverage_percentage: 12 }
  const [, renamed] = await after([priced(1, 3, more), priced(2, 2)], 'v3')
  t.match(renamed, { kind: 'updated', after: { coverage: 12 } })
  t.match(renamed?.fields, ['coverage_percentage', 'name'])
  const [, , left] = await after([priced(2, 2)], 'v4')
  t.match(left, { kind: 'removed', before: { cpm: 3 } })
  t.equal((await asked()).signal, undefined)
  await over.restart()
  t.equal((await asked()).changes.at(-1)?.kind, 'removed')
  const back = await after([priced(1, 4), priced(2, 2)], 'v5')
  t.match(back.at(-1), { kind: 'created', after: { cpm: 4 } })

  const own = await fetch(`${over.federation.url}/console/api/signal?id=${handle}`, {
    headers: { authorization: 'Bearer a-buyer-key' },
  })
  t.same(Object.keys((await own.json()) as object).sort(), ['get_signals', 'signal'], 'a buyer is told none')
})

test('more changes at once than are kept are told as their number', async (t) => {
  const rows = (cpm: number) => Array.from({ length: 1_001 }, (_, at) => priced(at, cpm))
  const feed = wholesaleAgent(rows(2), 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'one', url: agent.url }])
  const { signals } = await over.wholesale()
  feed.publish(rows(3), 'v2')
  await over.post('/refresh?upstream=one')
  for (const end = Date.now() + 60_000; ; await wait(20)) {
    const answer = await over.get(`/console/api/signal?id=${signals[0].signal_agent_segment_id}`)
    const { changes } = (await answer.json()) as Said
    if (changes.length === 0 && Date.now() < end) continue
    t.match(changes, [{ kind: 'many', count: 1_001 }])
    break
  }
})
