import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Test, test } from 'tap'
import { startWorld } from '../support/federation.js'
import { until } from '../support/until.js'

/** An upstream that answers every request with 200 and something that no agent says. */
async function garbageAgent(t: Test): Promise<string> {
  const server = createServer((_request, response) => {
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end('{"result":[[["\\u0000"]]],"signals":7')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
}

test('an upstream that answers garbage is named, and the rest of the feed is served', async (t) => {
  const url = await garbageAgent(t)
  const world = await startWorld({
    signals: 96,
    config: (hosts) => ({
      upstreams: [{ id: 'garbage', url }],
      egress: { hosts, allow_networks: ['127.0.0.0/8'] },
    }),
  })
  t.teardown(() => world.close())
  const page = await world.wholesale()
  t.equal(page.status, 'completed')
  t.equal(page.signals?.length, 50)
  t.match(
    page.incomplete?.map(({ description }) => description),
    [/garbage is absent/, /fogbank\.example is absent/],
  )
  t.match(
    world.federation.statuses().find(({ id }) => id === 'garbage'),
    { state: 'absent', problem: { reason: /not_an_agent|protocol_error/ } },
  )
})

test('a provider that does not answer takes its own signals out, until it answers again', async (t) => {
  const world = await startWorld({ signals: 24, stopped: ['motorledger.example'] })
  t.teardown(() => world.close())
  const of = async (domain: string) =>
    (await world.wholesale({ filters: { data_providers: [domain] } })).pagination?.total_count
  t.equal(await of('motorledger.example'), 0, 'what cannot be verified is not sold')
  t.ok((await of('larderloyalty.example')) ?? 0, 'the other providers are not touched')
  const reasons = (await world.federation.contributions()).map(
    ({ reasons }) => reasons.get('unreachable') ?? 0,
  )
  t.ok(Math.max(...reasons) > 0, 'and the reason is named')

  world.sandbox.restart('motorledger.example')
  const back = await until(
    () => of('motorledger.example'),
    (count) => Boolean(count),
  )
  t.ok(back, `${back} signals came back by themselves`)
})
