/** A registry that says as much as an answer holds: what asks us stops nobody, and is sent and kept within bounds. */
import { test } from 'tap'
import { agent, startTributary } from '../support/listing-registry.js'
import { watchStops } from '../support/thread-time.js'
import { startHttp } from '../support/upstream-agent.js'

const STOP_MS = 50
const MOST_SENT = 8 * 1024 * 1024

type Test = { teardown(task: () => unknown): void }

/** A registry that says `large` of agents of any type but signals, and nothing of those. */
async function startLarge(t: Test, large: Buffer) {
  const server = await startHttp((request, response) => {
    const isOwn = request.url?.includes('type=signals')
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(isOwn ? '{"agents":[],"count":0}' : large)
  }, '')
  t.teardown(server.close)
  return server.origin
}

const many = (count: number, one: string) => Array.from({ length: count }, () => one).join()
const listed = (...records: object[]) => JSON.stringify({ agents: records })

const shop = agent('sales', 'shop')
const CASES = {
  'values beside the agents': `{"agents":[${JSON.stringify(shop)}],"x":[${many(990_000, `{"k":"${'v'.repeat(20)}"}`)}]}`,
  'one member of one agent': listed({ ...shop, contact: ['CUT'] }).replace(
    '"CUT"',
    many(990_000, `{"k":"${'v'.repeat(12)}"}`),
  ),
  'ten thousand agents with all members': listed(
    ...Array.from({ length: 10_000 }, (_, at) =>
      agent('sales', `shop${at}`, {
        capabilities: { tools: [{ name: 'x', description: 'd'.repeat(2_000) }] },
      }),
    ),
  ),
}

for (const [what, body] of Object.entries(CASES)) {
  test(`a registry's answer that is large by ${what} stops nobody`, async (t) => {
    const registry = await startLarge(t, Buffer.from(body))
    const { url } = await startTributary(t, { registries: [{ url: registry }] })
    const watch = watchStops()
    t.teardown(watch.end)
    const ask = async (query: string) => {
      const response = await fetch(`${url}/api/registry/agents?${query}`)
      return Buffer.from(await response.arrayBuffer())
    }
    watch.longest()
    for (const query of ['type=sales', 'type=sales&capabilities=true', 'creative_operation=build']) {
      const sent = await ask(query)
      const stop = watch.longest()
      t.ok(stop < STOP_MS, `${query}: ${stop} ms`)
      t.ok(sent.byteLength < MOST_SENT, `${query}: ${sent.byteLength} bytes`)
    }
    const listing = JSON.parse(String(await ask('type=sales')))
    t.ok(listing.count >= 1)
    t.match(listing.agents[0], { type: 'sales', description: /^What shop/ })
  })
}
