import { test } from 'tap'
import { makeRoster, type RosterPolicy } from '../../src/upstreams/roster/roster.js'
import type { RegistryRecord } from '../../src/upstreams/rows/registry-records.js'

const MOST_LISTED = 10_000 // docs/security.md

const record = (url: string, more: Partial<RegistryRecord> = {}): RegistryRecord => ({
  url,
  agentUrl: url,
  name: url,
  verified: false,
  ...more,
})

const roster = (
  records: RegistryRecord[],
  policy: RosterPolicy = {},
  statics: Parameters<typeof makeRoster>[0]['statics'] = [],
) => makeRoster({ registries: [{ url: 'https://registry.example', records }], statics, policy })

const ids = (made: ReturnType<typeof roster>) => made.entries.map(({ id }) => id)

test('ids are readable, unique, and do not depend on who else is listed', async (t) => {
  const urls = [
    'https://signals.northwind.example/mcp',
    'https://a.example:8443/acme/v1/mcp',
    'https://a.example:8443/a2a',
  ]
  const all = roster(urls.map((url) => record(url)))
  t.same(ids(all).sort(), ['a.example-8443-a2a', 'a.example-8443-acme-v1', 'signals.northwind.example'])
  for (const url of urls) t.ok(ids(all).includes(ids(roster([record(url)]))[0] as string))
  const clash = ids(roster([record('https://a.example/mcp'), record('http://a.example/mcp')]))
  t.equal(new Set(clash).size, 2)
})

test('policy includes and excludes by url, member and verification', async (t) => {
  const records = [
    record('https://a.example/mcp', { member: 'm1', verified: true }),
    record('https://b.example/mcp', { member: 'm2' }),
    record('https://c.example/mcp'),
  ]
  t.same(ids(roster(records, { exclude: { urls: ['HTTPS://A.example/mcp'], members: ['m2'] } })), [
    'c.example',
  ])
  t.same(ids(roster(records, { include: { members: ['m2'] } })), ['b.example'])
  t.same(ids(roster(records, { verifiedOnly: true })), ['a.example'])
  t.match(roster(records, { verifiedOnly: true }).excluded, [
    { reason: 'not_verified' },
    { reason: 'not_verified' },
  ])
})

test('agents beyond what a snapshot can number are left out, unless the configuration names them', async (t) => {
  const records = Array.from({ length: MOST_LISTED + 2 }, (_, at) => record(`https://a${at}.example/mcp`))
  const [first, beyond] = records.slice(-2) as [RegistryRecord, RegistryRecord]
  const made = roster(records, { exclude: { urls: ['https://a0.example/mcp'] } }, [{ url: beyond.url }])
  t.equal(made.entries.length, MOST_LISTED + 1)
  t.ok(
    made.entries.some(({ url }) => url === first.url),
    'who is excluded takes no place',
  )
  t.same(made.excluded, [{ url: 'https://a0.example/mcp', reason: 'excluded' }])
  t.match(roster(records).excluded, [
    { url: first.url, reason: 'too_many' },
    { url: beyond.url, reason: 'too_many' },
  ])
})

test('a static entry completes, overrides and excludes what a registry lists', async (t) => {
  const listed = [record('https://a.example/mcp', { member: 'm', name: 'Agent A' })]
  const auth = { type: 'bearer' as const, token: 't' }
  const made = roster(listed, { exclude: { members: ['m'] } }, [
    { id: 'nw', url: 'https://A.example/mcp', auth },
  ])
  t.match(made.entries, [{ id: 'nw', url: 'https://A.example/mcp', auth }])
  t.same(roster(listed, {}, [{ url: 'https://a.example/mcp', exclude: true }]).entries, [])
})

test('a static entry that cannot be read is an error that quotes it', async (t) => {
  t.throws(() => roster([], {}, [{ url: 'a.example' }]), /a\.example/)
  t.throws(
    () =>
      roster([], {}, [
        { id: 'x', url: 'https://a.example/' },
        { id: 'x', url: 'https://b.example/' },
      ]),
    /twice/,
  )
})

test('nobody takes over a configured id, or the id of another host', async (t) => {
  const configured = { id: 'north-wind.example', url: 'https://signals.north.example/mcp' }
  const made = roster(
    [
      record('https://north--wind.example/mcp'),
      record('https://north-wind.example/mcp'),
      record('https://north-wind.example/'),
    ],
    {},
    [configured],
  )
  const idOf = (url: string) => made.entries.find(({ agentUrl }) => agentUrl === url)?.id
  t.equal(idOf(configured.url), configured.id)
  t.equal(idOf('https://north--wind.example/mcp'), 'north--wind.example')
  t.match(idOf('https://north-wind.example/mcp'), /^north-wind\.example-[0-9a-f]{6}$/)
  t.equal(new Set(ids(made)).size, 4)
  const hashed = idOf('https://north-wind.example/mcp') as string
  const taken = roster([record('https://north-wind.example/mcp')], {}, [
    configured,
    { ...configured, id: hashed, url: 'https://b.example/mcp' },
  ])
  t.equal(new Set(ids(taken)).size, 3, 'nor an id that somebody configured to look like a derived one')
})

test('an agent that policy excludes does not come back through another registry', async (t) => {
  const url = 'https://a.example/mcp'
  const listed = (first: Partial<RegistryRecord>, second: Partial<RegistryRecord>, policy: RosterPolicy) =>
    makeRoster({
      registries: [
        { url: 'https://one.example', records: [record(url, first)] },
        { url: 'https://two.example', records: [record(url, second)] },
      ],
      statics: [],
      policy,
    })
  const banned = { member: 'banned' }
  for (const [first, second] of [
    [banned, {}],
    [{}, banned],
  ] as const) {
    const made = listed(first, second, { exclude: { members: ['banned'] } })
    t.same(made.entries, [])
    t.match(made.excluded, [{ url, reason: 'excluded' }])
  }
})

test('two entries of one canonical url are an error', async (t) => {
  t.throws(
    () =>
      roster([], {}, [
        { id: 'x', url: 'https://a.example/mcp' },
        { id: 'y', url: 'HTTPS://A.example:443/mcp' },
      ]),
    /twice/,
  )
})

test('an agent with what looks like a credential in its query is not read as listed, whoever else is at its host', async (t) => {
  const root = 'https://hub.example/mcp'
  const held = ['code=us', 'code=de', 'tokenizer=bpe', 'tenant=pk-acme-corporation']
  const records = held.map((query) => record(`${root}?${query}`))
  const { entries, excluded } = roster([record(root), ...records, record(`${root}?tenant=a&&x`)])
  t.match(entries, [
    { url: root, agentUrl: root, others: undefined },
    { url: `${root}?tenant=a&&x`, agentUrl: `${root}?tenant=a&&x` },
  ])
  t.same(
    excluded,
    held.map((query) => ({ url: `${root}?${query}`, reason: 'secret_in_url' })),
  )
  const configured = roster(records, {}, [{ id: 'us', url: `${root}?code=us` }])
  t.match(configured.entries, [{ id: 'us', url: `${root}?code=us`, agentUrl: root, source: 'static' }])
  t.equal(configured.excluded.length, held.length, 'what the operator calls with a credential is another')
})

test('a rule means the agent of exactly its url', async (t) => {
  const urls = ['https://hub.example/mcp?code=us']
  const made = roster([record('https://hub.example/mcp')], { exclude: { urls } })
  t.equal(made.entries.length, 1)
  t.same(roster([record(urls[0] ?? '')], { exclude: { urls } }).excluded, [
    { url: urls[0], reason: 'excluded' },
  ])
})

test('an agent that the operator wrote is known without the credentials in its url, and called with them', async (t) => {
  const url = 'https://a.example/mcp?tenant=5&api_key=sk-123456789'
  t.match(roster([], {}, [{ url }]).entries, [
    { url, agentUrl: 'https://a.example/mcp?tenant=5', id: 'a.example' },
  ])
})
