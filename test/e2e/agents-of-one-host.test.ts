/** Agents that only the queries of their urls tell apart are judged by the whole of it. */
import { test } from 'tap'
import { startOver } from '../support/federation-over.js'
import { startHttp, startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row, until } from '../support/upstream-world.js'

const DOMAIN = 'tridentauto.example'

/** A host of agents, a registry that lists them at these places, and a provider that authorizes those at those. */
async function startHost(t: { teardown(task: () => unknown): void }, listed: string[], authorized: string[]) {
  const host = await startMcpAgent(wholesaleAgent([row(1)], 'v1').handle)
  const { signal_id: id } = row(1).signal_ref as { signal_id: string }
  const agents = listed.map((end) => ({ name: `at ${end}`, url: host.url + end, type: 'signals' }))
  const entries = authorized.map((end) => ({
    ...{ url: host.url + end, authorized_for: 'x' },
    ...{ authorization_type: 'signal_ids', signal_ids: [id] },
  }))
  const told = (body: object) => startHttp((_, response) => void response.end(JSON.stringify(body)), '')
  const registry = await told({ agents, count: agents.length })
  const provider = await told({ signals: [{ id, name: 'A' }], authorized_agents: entries })
  for (const { close } of [host, registry, provider]) t.teardown(close)
  const settings = {
    authorization: { policy: 'strict' },
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { [DOMAIN]: provider.origin } },
  }
  return { url: host.url, registries: [{ url: registry.origin }], settings }
}

test('an agent is authorized by an entry of exactly its url, query included', async (t) => {
  const { url, registries, settings } = await startHost(
    t,
    ['?tenant=a', '?tenant=A', '?code=us'],
    ['?tenant=a', ''],
  )
  const world = await startOver(t, [], { ...settings, registries })
  await until('a signal', async () => (await world.wholesale()).signals?.length === 1)
  const { signals } = await world.wholesale()
  t.same(
    signals[0].ext.tributary.offers.map((offer: { agent_url: string }) => offer.agent_url),
    [`${url}?tenant=a`],
  )
  t.match(await world.explain(`${url}?code=us`), {
    ...{ kind: 'upstream', reason: 'upstream_excluded', detail: 'secret_in_url' },
  })
  t.match(await world.explain(`${url}?tenant=A`), { kind: 'upstream', reason: 'nothing_published' })
  t.match(await world.explain(url), { reason: 'unknown' }, 'nobody lists it')
})

test('what the operator writes into a query is a credential, and is shown to nobody', async (t) => {
  const { url, settings } = await startHost(t, [], [''])
  const world = await startOver(t, [{ id: 'us', url: `${url}?code=planted-0001` }], settings)
  await until('a signal', async () => (await world.wholesale()).signals?.length === 1)
  t.match((await world.wholesale()).signals[0].ext.tributary.offers, [{ agent_url: url }])
  const { ref: _, ...told } = await world.explain(`${url}?code=planted-0001`)
  t.match(told, { kind: 'upstream', upstreams: [{ id: 'us' }] })
  t.notMatch(JSON.stringify([told, await (await world.get('/console/api/upstreams')).json()]), 'planted')
})
