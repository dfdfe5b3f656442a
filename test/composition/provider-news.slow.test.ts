import { type Test, test } from 'tap'
import { createWeb } from '../authz/world.js'
import { startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { row } from '../support/upstream-world.js'
import { until } from './support/scripted.js'

type Ref = { data_provider_domain: string; signal_id: string }
type Asked = { refs: Ref[]; text: string }

/** An agent without a feed: it finds what it is asked for by reference, or by words where it knows no lookup. */
async function startBrief(t: Test, domains: readonly string[], byWords = false) {
  const asked: Asked[] = []
  const properties = byWords
    ? { signal_spec: { type: 'string' } }
    : { signal_spec: { type: 'string' }, signal_refs: { type: 'array' }, pagination: { type: 'object' } }
  const agent = await startMcpAgent(
    (task, { signal_refs: refs = [], signal_spec: text = '' }) => {
      if (task !== 'get_signals') {
        return {
          adcp: { major_versions: [3], supported_versions: ['3.1'] },
          supported_protocols: ['signals'],
          signals: { discovery_modes: ['brief'], data_provider_domains: domains },
        }
      }
      if (text === '' && (refs as Ref[]).length === 0) {
        return { adcp_error: { code: 'INVALID_REQUEST', message: 'a question is required' } }
      }
      asked.push({ refs: refs as Ref[], text: String(text) })
      const found = (refs as Ref[]).filter(({ data_provider_domain: domain }) => domains.includes(domain))
      return {
        signals: found.map((ref, at) => row(at, { signal_agent_segment_id: id(ref), signal_ref: ref })),
      }
    },
    undefined,
    [{ name: 'get_signals', inputSchema: { type: 'object', properties, additionalProperties: false } }],
  )
  t.teardown(agent.close)
  return { url: agent.url, asked }
}

const id = ({ data_provider_domain: domain, signal_id: signal }: Ref) => `${domain}:${signal}`.slice(0, 100)

type Grant = { url: string; ids: readonly string[] }

/** A provider's file: every signal that is granted to somebody, and who may sell which. */
const fileOf = (grants: readonly Grant[]) => ({
  signals: [...new Set(grants.flatMap(({ ids }) => ids))].map((signal) => ({
    ...{ id: signal, name: `Named ${signal}`, value_type: 'binary', tags: ['all'] },
  })),
  authorized_agents: grants.map(({ url, ids }) => ({
    ...{ url, authorized_for: 'signals', authorization_type: 'signal_ids', signal_ids: ids },
  })),
})

const wellKnown = (domain: string) => `${domain}/.well-known/adagents.json`
const ids = (prefix: string, count: number) => Array.from({ length: count }, (_, at) => `${prefix}_${at}`)

test('news of a provider re-reads the agents whose own signals it changes, and no other', async (t) => {
  const web = await createWeb()
  t.teardown(web.close)
  const domains = ids('d', 4).map((name) => `${name.replace('_', '')}.example`)
  const agents = await Promise.all(domains.map((domain) => startBrief(t, [domain, 'shared.example'])))
  const publish = (at: number, count: number) =>
    web.page(wellKnown(domains[at] as string), {
      body: fileOf([{ url: agents[at]?.url ?? '', ids: ids('s', count) }]),
    })
  const share = (first: number) =>
    web.page(wellKnown('shared.example'), {
      body: fileOf(agents.map(({ url }, at) => ({ url, ids: ids(`shared${at}`, at === 0 ? first : 2) }))),
    })
  for (const at of agents.keys()) publish(at, 3)
  share(2)
  const hosts = Object.fromEntries([...domains, 'shared.example'].map((domain) => [domain, web.origin]))
  const over = await startOver(
    t,
    agents.map(({ url }, at) => ({ id: `a${at}`, url, protocol: 'mcp' })),
    {
      authorization: { refresh: '1s' },
      defaults: { refresh: '1h' },
      egress: { allow_networks: ['127.0.0.0/8'], hosts },
    },
  )
  const count = async () => (await over.wholesale()).pagination.total_count
  t.equal(await count(), 20, 'the feed opens when all that providers granted has been asked for')
  const before = agents.map(({ asked }) => asked.length)

  publish(0, 5)
  share(4)
  await until(count, (signals) => signals === 24)
  t.ok((agents[0]?.asked.length ?? 0) > (before[0] ?? 0))
  t.same(
    agents.slice(1).map(({ asked }) => asked.length),
    before.slice(1),
    'nobody else was asked',
  )
})

test('a provider that grants an honest agent 6,000 signals takes neither its lookups nor its names', async (t) => {
  const web = await createWeb()
  t.teardown(web.close)
  const byRef = await startBrief(t, ['zeta.example'])
  const byName = await startBrief(t, ['zeta.example'], true)
  const hostile = await startBrief(t, ['aaa.example'])
  const grantedTo = (prefix: string, count: number) => ({
    body: fileOf([byRef, byName].map(({ url }) => ({ url, ids: ids(prefix, count) }))),
  })
  web.page(wellKnown('zeta.example'), grantedTo('own', 60))
  web.page(wellKnown('aaa.example'), grantedTo('flood', 6_000))
  const domains = ['zeta.example', 'aaa.example']
  const over = await startOver(
    t,
    [byRef, byName, hostile].map(({ url }, at) => ({ id: `a${at}`, url, protocol: 'mcp' })),
    {
      egress: {
        allow_networks: ['127.0.0.0/8'],
        hosts: Object.fromEntries(domains.map((domain) => [domain, web.origin])),
      },
    },
  )
  t.equal((await over.wholesale()).pagination.total_count, 60)
  const readings: number[] = []
  for (const { refs } of byRef.asked) {
    if (refs[0]?.signal_id === 'own_0') readings.push(0)
    readings.push((readings.pop() ?? 0) + 1)
  }
  t.ok(Math.max(...readings) <= 100, `lookups of each reading: ${readings}`)
  t.ok(
    byRef.asked.some(({ refs }) => refs[0]?.signal_id.startsWith('flood')),
    'what is left is for others',
  )
  const names = byName.asked.map(({ text }) => text)
  t.equal(new Set(names.filter((name) => name.startsWith('Named own'))).size, 50)
  t.notOk(
    names.some((name) => name.startsWith('Named flood')),
    'nor is anybody else named',
  )
})
