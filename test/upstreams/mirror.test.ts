import { test } from 'tap'
import { sliceListing } from '../../src/upstreams/slice.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, rows, until } from '../support/upstream-world.js'

for (const flavour of [
  { sessions: false, json: true },
  { sessions: false, json: false },
  { sessions: true, json: true },
  { sessions: true, json: false },
]) {
  test(`a wholesale feed is mirrored whole: ${JSON.stringify(flavour)}`, async (t) => {
    const feed = wholesaleAgent(rows(250), 'v1')
    const agent = await startMcpAgent(feed.handle, flavour)
    t.teardown(agent.close)
    const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]))
    await upstreams.start()
    await until('a slice', () => upstreams.slices().length === 1)
    const [slice] = upstreams.slices()
    t.equal(slice?.rows.count, 250)
    t.equal(slice?.feedVersion, 'v1')
    t.equal(slice?.mode, 'wholesale')
    t.same(slice && sliceListing(slice, 249), row(249))
    t.match(upstreams.statuses(), [{ id: 'a', protocol: 'mcp', state: 'fresh', listings: 250 }])
    t.same(upstreams.providerDomains(), ['tridentauto.example'])
  })
}

test('an unchanged poll moves the freshness and nothing else', async (t) => {
  const feed = wholesaleAgent(rows(30), 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }], { refreshMs: 20 }))
  let changes = 0
  upstreams.onChange(() => {
    changes += 1
  })
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  const before = upstreams.slices()
  const confirmed = upstreams.statuses()[0]?.confirmedAt ?? 0
  await until('confirmations', () => (upstreams.statuses()[0]?.confirmedAt ?? 0) > confirmed + 50)
  t.equal(upstreams.slices(), before)
  t.equal(changes, 1)
  t.equal(feed.pages(), 1, 'one page was ever sent')
  feed.publish([...rows(30), row(30)], 'v2')
  await until('the new row', () => upstreams.slices()[0]?.rows.count === 31)
  t.equal(changes, 2)
})
