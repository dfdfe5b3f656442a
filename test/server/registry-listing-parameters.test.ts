import { test } from 'tap'
import { agent, measuring, startRegistry, startTributary } from '../support/listing-registry.js'

type Listing = { agents: { name: string; type: string; [field: string]: unknown }[]; count: number }
type Problem = { error: string; parameter: string; valid_values?: string[] }

const accredited = (metric_id: string, ...bodies: string[]) => ({
  metric_id,
  accreditations: bodies.map((accrediting_body) => ({ accrediting_body })),
})

const TYPES = ['brand', 'rights', 'governance', 'creative', 'sales', 'buying', 'unknown']
const RECORDS = [
  ...TYPES.map((type) => agent(type, type)),
  agent('sales', 'both', { url: 'https://signals.example/mcp' }),
  agent('sales', 'sales', {
    url: 'https://SALES.example:443/mcp',
    description: 'the same url, spelled otherwise',
  }),
  agent('wizardry', 'newtype'),
  agent('unknown', 'again', { url: 'https://signals.example/mcp' }),
  agent('unknown', 'brand again', { url: 'https://brand.example/mcp' }),
  agent('creative', 'maker', {
    capabilities: { creative_capabilities: { can_generate: true, can_preview: true } },
  }),
  agent('creative', 'shower', { capabilities: { tools: [{ name: 'preview_creative' }] } }),
  measuring('alpha', [accredited('attention_100%', 'MRC'), accredited('reach', 'JICWEBS')]),
  measuring('beta', [accredited('attention_units', 'JICWEBS')], { compliance: { verified: true } }),
  measuring('gamma', [accredited('Reach', 'MRC')], { compliance: { verified: true } }),
  measuring('delta', []),
]

test('the registry listing takes every parameter of the protocol, and asks a registry once', async (t) => {
  const registry = await startRegistry(t, RECORDS)
  registry.badges = { beta: ['spec'], gamma: ['spec', 'live'] }
  const { url } = await startTributary(t, {
    registries: [{ url: registry.url }],
    upstreams: [{ id: 'own', url: 'https://signals.example/mcp' }],
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { 'signals.example': 'http://127.0.0.1:2' } },
  })
  const get = (query: string, headers: Record<string, string> = {}) =>
    fetch(`${url}/api/registry/agents?${query}`, { headers })
  const list = async (query: string) => (await (await get(query)).json()) as Listing
  const names = async (query: string) => (await list(query)).agents.map(({ name }) => name).sort()
  const problem = async (query: string) => {
    const response = await get(query)
    t.equal(response.status, 400, query)
    return (await response.json()) as Problem
  }

  await t.test('type: one of the closed list; without it, every type', async (t) => {
    const several = ['unknown', 'sales', 'creative']
    for (const type of TYPES.filter((type) => !several.includes(type))) {
      t.same(await names(`type=${type}`), [type], type)
    }
    t.same(await names('type=sales'), ['both', 'sales'], 'one canonical url is one agent of a type')
    t.same(await names('type=unknown'), ['newtype', 'unknown'], 'a type that nobody knows is unknown')
    t.same(await names('type=measurement'), ['alpha', 'beta', 'delta', 'gamma'])
    t.same(await names('type=signals'), ['own'], 'signals agents are our upstreams')
    const all = await list('')
    t.equal(all.count, 16)
    t.equal(all.agents.length, all.count)
    t.same(await list('type=wizardry'), { agents: [], count: 0 }, 'a word that is no type lists nobody')
    t.equal((await list('type=')).count, all.count, 'an empty value says nothing')
    t.match(await problem('type=sales&type=brand'), { parameter: 'type', error: /more than once/ })
    t.equal((await get('limit=1&offset=2')).status, 200, 'parameters of nobody are ignored')
  })

  await t.test('flags: only the literal true, each adds its own part', async (t) => {
    const parts = {
      health: ['health', 'stats'],
      capabilities: ['capabilities'],
      properties: ['property_summary', 'publisher_domains'],
      compliance: ['compliance'],
    }
    const every = Object.values(parts).flat()
    const shown = async (query: string) => {
      const [record = {}] = (await list(`type=brand&${query}`)).agents
      return Object.keys(record)
        .filter((name) => every.includes(name))
        .sort()
    }
    t.same(await shown(''), [])
    for (const [flag, added] of Object.entries(parts)) {
      t.same(await shown(`${flag}=true`), added, flag)
      for (const value of ['false', '1', 'TRUE', '']) {
        t.same(await shown(`${flag}=${value}`), [], `${flag}=${value} is as if it were absent`)
      }
    }
    t.same(await shown('health=true&compliance=true'), ['compliance', 'health', 'stats'])
    const [own] = (await list('type=signals&health=true')).agents
    const dead = { health: { online: false, error: 'it cannot be reached' }, stats: {}, protocol: 'mcp' }
    t.match(own, dead, 'measured by us; nobody knows what it speaks')
  })

  await t.test('metric_id: exact, OR within, implies measurement', async (t) => {
    t.same(await names('metric_id=reach'), ['alpha'], 'exact, letter case included')
    t.same(await names('metric_id=reach&metric_id=Reach'), ['alpha', 'gamma'])
    t.same(await names('metric_id=rea'), [])
    t.same(await names('metric_id=reach&type=measurement'), ['alpha'])
    t.same(await names('metric_id=reach&type=sales'), [], 'no agent is of two types')
    t.equal((await list('metric_id=')).count, (await list('')).count, 'an empty value says nothing')
    const [first] = (await list('metric_id=reach')).agents
    t.notOk(first?.capabilities, 'what was fetched for the filter is not shown')
    t.match((await list('metric_id=reach&capabilities=true')).agents[0], {
      capabilities: { measurement_capabilities: { metrics: [{ metric_id: 'attention_100%' }, {}] } },
    })
  })

  await t.test('accreditation: exact on the body, OR within, AND with others', async (t) => {
    t.same(await names('accreditation=MRC'), ['alpha', 'gamma'])
    t.same(await names('accreditation=mrc'), [])
    t.same(await names('accreditation=MRC&accreditation=JICWEBS'), ['alpha', 'beta', 'gamma'])
    t.same(await names('accreditation=MRC&metric_id=reach'), ['alpha'])
    t.same(await names('accreditation=MRC&metric_id=attention_units'), [])
  })

  await t.test(
    'q: a substring of metric ids without letter case or wildcards, at most 64 characters',
    async (t) => {
      t.same(await names('q=REACH'), ['alpha', 'gamma'])
      t.same(await names('q=attention'), ['alpha', 'beta'])
      t.same(await names('q=%25'), ['alpha'], 'a percent sign is itself')
      t.same(await names('q=n_u'), ['beta'], 'an underscore is itself')
      t.same(await names('q=n_1'), ['alpha'])
      t.same(await names('q=alph'), [], 'names of agents do not count')
      t.same(await list('type=signals&q='), await list('type=signals'), 'an empty text says nothing')
      t.same(await list('q=&type='), await list(''))
      t.same(await names('q=&q=attention'), ['alpha', 'beta'])
      t.same(await names('q=attention&accreditation=MRC'), ['alpha'])
      t.equal((await get(`q=${'x'.repeat(64)}`)).status, 200)
      t.equal((await get(`q=${encodeURIComponent('🌊'.repeat(64))}`)).status, 200, 'characters, not bytes')
      t.match(await problem(`q=${'x'.repeat(65)}`), { parameter: 'q', error: /at most 64 characters/ })
      t.match(await problem('q=a&q=b'), { parameter: 'q' })
    },
  )

  await t.test('verification_mode: AND over repeats; verified: any badge', async (t) => {
    t.same(await names('verification_mode=spec'), ['beta', 'gamma'])
    t.same(await names('verification_mode=live'), ['gamma'])
    t.same(await names('verification_mode=spec&verification_mode=live'), ['gamma'])
    t.same(
      await names('verification_mode=spec&metric_id=attention_units'),
      ['beta'],
      'AND with other filters',
    )
    t.same(await names('verified=true'), ['beta', 'gamma'])
    t.same(await names('verified=true&type=brand'), [])
    t.match(await problem('verification_mode=zzz'), {
      parameter: 'verification_mode',
      valid_values: ['spec', 'live'],
    })
    t.match(await problem('verification_mode=spec&verification_mode=SPEC'), {
      parameter: 'verification_mode',
    })
    const { count } = await list('')
    for (const nothing of ['verified=yes', 'verified=false', 'verified=', 'verification_mode=']) {
      t.equal((await list(nothing)).count, count, nothing)
    }
  })

  await t.test('creative_operation: what an agent can do with creatives', async (t) => {
    t.same(await names('creative_operation=build'), ['maker'])
    t.same(await names('creative_operation=preview'), ['maker', 'shower'])
    t.same(await names('creative_operation=preview&type=sales'), [])
    t.equal((await list('creative_operation=')).count, (await list('')).count)
    t.match(await problem('creative_operation=paint'), {
      parameter: 'creative_operation',
      valid_values: ['build', 'preview', 'validate'],
    })
    const [first] = (await list('creative_operation=build')).agents
    t.notOk(first?.capabilities, 'what was fetched for the filter is not shown')
  })

  await t.test('an agent is listed once a type, and never as unknown beside a type', async (t) => {
    const urls = (await list('')).agents.flatMap(({ url, type }) => (type === 'unknown' ? [url] : []))
    t.notOk(urls.includes('https://signals.example/mcp'), 'an upstream of ours')
    t.notOk(urls.includes('https://brand.example/mcp'), 'whom a registry lists with its type')
  })

  await t.test('conditional: the same listing is not sent twice', async (t) => {
    const first = await get('type=brand')
    const etag = first.headers.get('etag') as string
    t.match(etag, /^W\/".+"$/)
    const second = await get('type=brand', { 'if-none-match': etag })
    t.equal(second.status, 304)
    t.equal(await second.text(), '')
    t.equal((await get('type=brand', { 'if-none-match': `"x", ${etag.slice(2)}` })).status, 304)
    t.equal((await get('type=sales', { 'if-none-match': etag })).status, 200)
  })

  await t.test('words of callers never reach a registry, and questions repeat from the cache', async (t) => {
    const asked = () => registry.requests.length
    const before = asked()
    for (let at = 0; at < 20; at += 1) await get(`q=word${at}&metric_id=m${at}&accreditation=a${at}`)
    t.equal(asked(), before, 'the question was asked before')
    for (const { query } of registry.requests) {
      t.same(
        [...query.keys()].filter((name) => ['q', 'metric_id', 'accreditation'].includes(name)),
        [],
      )
    }
  })
})

test('a registry that fails leaves our own upstreams listed and is told of', async (t) => {
  const registry = await startRegistry(t, [agent('sales', 'shop')])
  registry.failing = true
  const { url } = await startTributary(t, {
    registries: [{ url: registry.url }],
    upstreams: [{ id: 'own', url: 'http://127.0.0.1:2/mcp' }],
  })
  const listing = await (await fetch(`${url}/api/registry/agents`)).json()
  t.match(listing, { count: 1, agents: [{ name: 'own', type: 'signals' }] })
  t.match(listing, {
    incomplete: [{ description: 'Registries behind this one that have not answered lately: 1' }],
  })
})

test('an upstream of ours that a registry knows no type of is listed once', async (t) => {
  const url = 'https://signals.example/mcp'
  const registry = await startRegistry(t, [agent('unknown', 'again', { url })])
  const tributary = await startTributary(t, {
    registries: [{ url: registry.url }],
    upstreams: [{ id: 'own', url }],
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { 'signals.example': 'http://127.0.0.1:2' } },
  })
  const listing = await (await fetch(`${tributary.url}/api/registry/agents`)).json()
  t.match(listing, { count: 1, agents: [{ name: 'own', type: 'signals' }] })
})

test('a registry that ignores questions about badges gives nobody one', async (t) => {
  const verified = { compliance: { verified: true } }
  const registry = await startRegistry(t, [agent('sales', 'plain'), agent('sales', 'good', verified)])
  registry.badges = undefined
  const { url } = await startTributary(t, { registries: [{ url: registry.url }] })
  const listing = await (await fetch(`${url}/api/registry/agents?verification_mode=live`)).json()
  t.match(listing, { count: 1, agents: [{ name: 'good' }] })
})

test('who may not call may not read the listing', async (t) => {
  const { url } = await startTributary(t, { callers: { anonymous: 'deny' } })
  const refused = await fetch(`${url}/api/registry/agents`)
  t.equal(refused.status, 401)
  t.match(refused.headers.get('www-authenticate'), /^Bearer/)
  t.match(await refused.json(), { error: 'Credentials are required' })
})

test('an upstream is described by the record that policy admits, whoever else lists it', async (t) => {
  const own = agent('signals', 'signals', { compliance: { verified: true }, description: 'its own words' })
  const stranger = { ...own, member: { slug: 'stranger' }, compliance: {}, description: 'lies' }
  const { member: _, ...nobody } = stranger
  const registries = await Promise.all(
    [
      [stranger, nobody],
      [stranger, own],
    ].map((each) => startRegistry(t, each)),
  )
  for (const registry of registries) registry.badges = undefined
  const { url } = await startTributary(t, {
    registries: registries.map((registry) => ({ url: registry.url })),
    discovery: { verified_only: true },
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { 'signals.example': 'http://127.0.0.1:2' } },
  })
  for (const query of ['type=signals&compliance=true', 'verified=true&compliance=true', 'type=signals']) {
    const { agents } = (await (await fetch(`${url}/api/registry/agents?${query}`)).json()) as Listing
    t.match(agents, [{ member: { slug: 'signals' }, description: 'its own words' }], query)
    if (query.includes('compliance')) t.match(agents, [{ compliance: { verified: true } }], query)
  }
})
