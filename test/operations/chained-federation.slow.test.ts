import { test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import type { Federation } from '../../src/composition/federation.js'
import { agent, startRegistry, startTributary } from '../support/listing-registry.js'
import { reservedPort } from '../support/reserved-port.js'
import { startStrictAgent } from '../support/strict-agent.js'
import { until as untilAnswer } from '../support/until.js'
import { until } from '../support/upstream-world.js'

const agentUrls = ({ statuses }: Federation) => statuses().map(({ url }) => url)
const LOOPBACK = { allow_networks: ['127.0.0.0/8'] }

test('a second Tributary with the first as its registry federates the same upstreams', async (t) => {
  const sandbox = await startSandbox({ signals: 48 })
  t.teardown(() => sandbox.close())
  const egress = { ...LOOPBACK, hosts: sandbox.hosts }
  const first = await startTributary(t, {
    ...{ egress },
    registries: [{ url: sandbox.registryUrl }],
    upstreams: [{ url: sandbox.agents.gullwing.url, exclude: true }],
  })
  const second = await startTributary(t, { egress, registries: [{ url: first.url }] })

  t.equal(agentUrls(first).length, 5, 'six agents are listed, one is excluded')
  t.same(agentUrls(second), agentUrls(first))
  const protocols = ({ statuses }: Federation) => statuses().map(({ protocol }) => protocol)
  t.same(protocols(second), protocols(first), 'the A2A agent is one for both')
  const ids = () => [first, second].map(({ feed }) => feed.current()?.id)
  await until('the feed is the same, byte for byte', () => new Set(ids()).size === 1)

  const listed = async ({ url }: Federation) => {
    const listing = await (await fetch(`${url}/api/registry/agents?compliance=true`)).json()
    return (listing as { agents: { url: string }[] }).agents
  }
  t.same(
    (await listed(second)).map(({ url }) => url),
    (await listed(first)).map(({ url }) => url),
    'its own listing passes all of it on, other agent types included',
  )
})

test('an agent is listed where it was found, when registries disagree about its place', async (t) => {
  const { url } = await startStrictAgent(t)
  const elsewhere = url.replace('/mcp', '/MCP')
  const places = [elsewhere, url].map((mcp_endpoint) =>
    agent('signals', 'strict', { url: elsewhere, mcp_endpoint }),
  )
  const registry = await startRegistry(t, places)
  const first = await startTributary(t, { egress: LOOPBACK, registries: [{ url: registry.url }] })
  t.match(first.statuses(), [{ url, listings: 5 }])
  const listing = await fetch(`${first.url}/api/registry/agents?type=signals&health=true`)
  t.match(await listing.json(), {
    agents: [{ url: elsewhere, mcp_endpoint: url, health: { tools_count: Number } }],
  })
  const second = await startTributary(t, { egress: LOOPBACK, registries: [{ url: first.url }] })
  t.match(second.statuses(), [{ url, listings: 5 }])
})

test('two Tributaries that list each other do not ask in a circle', async (t) => {
  const shop = await startRegistry(t, [agent('sales', 'shop')])
  const listen = { port: await reservedPort() }
  const first = await startTributary(t, { egress: LOOPBACK, listen, registries: [{ url: shop.url }] })
  const second = await startTributary(t, { egress: LOOPBACK, registries: [{ url: first.url }] })
  await first.close()
  const again = await startTributary(t, {
    ...{ egress: LOOPBACK, listen },
    registries: [{ url: second.url }, { url: shop.url }],
  })
  const shops = async ({ url }: Federation) => {
    const listing = await (await fetch(`${url}/api/registry/agents?type=sales`)).json()
    return (listing as { agents: { name: string }[] }).agents.map(({ name }) => name)
  }
  for (const each of [again, second]) {
    // Who was asked by the one it asks says that it is incomplete, and is asked again.
    t.same(
      await untilAnswer(
        () => shops(each),
        (names) => names.length > 0,
      ),
      ['shop'],
    )
  }
  const vias = shop.requests.flatMap(({ headers }) => String(headers.via ?? '').split(',').length)
  t.ok(Math.max(...vias) <= 3, 'a question goes round once at most')
})

test('a question that comes back to its asker is answered from what is known', async (t) => {
  const shop = await startRegistry(t, [agent('sales', 'shop')])
  const { url } = await startTributary(t, { egress: LOOPBACK, registries: [{ url: shop.url }] })
  const list = async (type: string, via?: string) => {
    const headers: Record<string, string> = via ? { via } : {}
    return (await fetch(`${url}/api/registry/agents?type=${type}`, { headers })).json()
  }
  t.match(await list('sales', '1.1 somebody'), { count: 1 })
  const asked = shop.requests.length
  const via = String(shop.requests.at(-1)?.headers.via)
  t.match(via, /^1\.1 somebody, 1\.1 tributary-\w+$/)
  t.match(await list('sales', via), { count: 1, incomplete: undefined }, 'from the cache')
  t.match(await list('brand', via), { count: 0, incomplete: [{}] }, 'not asked again')
  t.equal(shop.requests.length, asked)
  t.match(await list('brand'), { count: 0, incomplete: undefined })
  t.equal(shop.requests.length, asked + 1)
})
