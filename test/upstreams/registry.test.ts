import { hash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'tap'
import { openBlobFiles } from '../../src/store/blob-files.js'
import { askRegistry, type RegistryStatus } from '../../src/upstreams/roster/registries.js'
import { readListing } from '../../src/upstreams/rows/registry-records.js'
import { startStrictAgent } from '../support/strict-agent.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startHttp, startMcpAgent } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, loopbackEgress, openUpstreams, rows, until } from '../support/upstream-world.js'

const REGISTRY = '../shared/adcp/registry'
const listingOf = (body: unknown) => readListing(Buffer.from(JSON.stringify(body)))
type Test = { teardown(task: () => unknown): void }

/** A registry with an ETag that moves with what it lists; `down` makes it answer 503. */
async function startRegistry(t: Test, initial: unknown[]) {
  let agents = initial
  let down = false
  const answers: number[] = []
  const server = await startHttp((request, response) => {
    const etag = `W/"${hash('sha256', JSON.stringify(agents))}"`
    const known = request.headers['if-none-match'] === etag
    const status = down ? 503 : known ? 304 : 200
    answers.push(status)
    response.writeHead(status, { 'content-type': 'application/json', etag })
    response.end(status === 200 ? JSON.stringify({ agents, count: agents.length }) : '')
  }, '')
  t.teardown(server.close)
  return {
    config: { url: server.origin, refreshMs: 20 },
    answers,
    list(next: unknown[]) {
      agents = next
    },
    fail(now: boolean) {
      down = now
    },
  }
}

async function startAgent(t: Test) {
  const agent = await startMcpAgent(wholesaleAgent(rows(5), 'v1').handle)
  t.teardown(agent.close)
  return agent
}

const record = (url: string, more = {}) => ({ name: 'An agent', url, type: 'signals', ...more })

test('agents appear and vanish with the registry, which is asked conditionally', async (t) => {
  const [one, two] = [await startAgent(t), await startAgent(t)]
  const registry = await startRegistry(t, [record(one.url)])
  const { upstreams } = await openUpstreams(t, { ...configOf([]), registries: [registry.config] })
  await upstreams.start()
  await until('the first agent', () => upstreams.slices().length === 1)
  await until('a conditional answer', () => registry.answers.includes(304))
  registry.list([record(one.url), record(two.url)])
  await until('the second agent', () => upstreams.slices().length === 2)
  registry.list([record(two.url)])
  await until('the first is gone', () => upstreams.slices().length === 1)
  t.match(upstreams.roster().entries, [{ url: two.url, source: registry.config.url }])
})

test('a registry that is down at start is replaced by the last good roster', async (t) => {
  const agent = await startAgent(t)
  const registry = await startRegistry(t, [record(agent.url)])
  const folder = await temporaryFolder(t)
  const config = { ...configOf([]), registries: [registry.config] }
  const first = await openUpstreams(t, config, { folder })
  await first.upstreams.start()
  await until('a slice', () => first.upstreams.slices().length === 1)
  await first.close()
  registry.fail(true)
  await agent.close()
  const second = await openUpstreams(t, config, { folder })
  await second.upstreams.start()
  t.equal(second.upstreams.slices()[0]?.rows.count, 5, 'the saved slice is in use at once')
  await until('the problem', () => second.upstreams.registries()[0]?.problem !== undefined)
  t.match(second.upstreams.registries(), [{ agents: 1, problem: { reason: 'server_error' } }])
})

test('a record that an earlier release left out is asked for, although the registry has not changed', async (t) => {
  const agent = await startAgent(t)
  const records = [record(agent.url), record(agent.url, { compliance: { verified: true } })]
  const registry = await startRegistry(t, records)
  const folder = await temporaryFolder(t)
  const config = { ...configOf([]), registries: [registry.config], policy: { verifiedOnly: true } }
  const first = await openUpstreams(t, config, { folder })
  await first.upstreams.start()
  await until('a slice, by the second record', () => first.upstreams.slices().length === 1)
  t.match(first.upstreams.registries(), [{ agents: 1 }])
  await first.close()

  const blobs = await openBlobFiles({ folder, onDamage: (name) => t.fail(name) })
  const [part] = (await blobs.read('roster')) ?? []
  const { agents: _, ...saved } = JSON.parse(Buffer.from(part ?? []).toString())[registry.config.url]
  const older = { ...saved, records: saved.records.slice(0, 1) }
  await blobs.write('roster', [Buffer.from(JSON.stringify({ [registry.config.url]: older }))])
  const second = await openUpstreams(t, config, { folder })
  await second.upstreams.start()
  t.match(second.upstreams.registries(), [{ agents: 1 }])
  await until('the second record', () => second.upstreams.roster().entries.length === 1)
  await second.close()

  const answers = registry.answers.length
  const third = await openUpstreams(t, config, { folder })
  await third.upstreams.start()
  await until('an answer', () => registry.answers.length > answers)
  t.equal(registry.answers[answers], 304, 'and is kept')
  t.equal(third.upstreams.roster().entries.length, 1)
})

test('a record that an earlier release kept under a borrowed url is not called', async (t) => {
  const registry = await startRegistry(t, [
    record('https://127.0.0.1:1/acme'),
    record('https://127.0.0.1:1/b'),
  ])
  const folder = await temporaryFolder(t)
  const config = { ...configOf([]), registries: [registry.config] }
  const first = await openUpstreams(t, config, { folder })
  await first.upstreams.start()
  await until('both agents', () => first.upstreams.roster().entries.length === 2)
  await first.close()

  const blobs = await openBlobFiles({ folder, onDamage: (name) => t.fail(name) })
  const [part] = (await blobs.read('roster')) ?? []
  const older = Buffer.from(part ?? [])
    .toString()
    .replace('"url":"https://127.0.0.1:1/acme"', '"url":"https://127.0.0.1:1/evil"')
  await blobs.write('roster', [Buffer.from(older)])
  registry.fail(true)
  const second = await openUpstreams(t, config, { folder })
  await second.upstreams.start()
  t.match(second.upstreams.roster().entries, [{ url: 'https://127.0.0.1:1/b' }])
  t.equal(second.upstreams.roster().entries.length, 1)
})

test('a registry that lists its agents once instead of twice has lost none', async (t) => {
  const all = Array.from({ length: 12 }, (_, at) => record(`https://127.0.0.1:1/${at}`))
  const { registry, clock, advance, says } = await watched(t, [...all, ...all, ...all])
  registry.list(all)
  const before = clock.now()
  advance(30)
  await says('the same agents', ({ fetchedAt = 0 }) => fetchedAt > before)
  registry.list([...all, record('https://127.0.0.1:1/12')])
  advance(60)
  await says('one more', ({ agents, problem }) => agents === 13 && problem === undefined)
})

test('two registries and a static entry that name one agent give one upstream', async (t) => {
  const agent = await startAgent(t)
  const a = await startRegistry(t, [record(agent.url, { member: { slug: 'm' } })])
  const b = await startRegistry(t, [record(agent.url.replace('http:', 'HTTP:'))])
  const config = { ...configOf([{ id: 'mine', url: agent.url }]), registries: [a.config, b.config] }
  const { upstreams } = await openUpstreams(t, config)
  await upstreams.start()
  await until('both registries', () => upstreams.registries().every(({ agents }) => agents === 1))
  t.match(upstreams.roster().entries, [{ id: 'mine', name: 'An agent', member: 'm' }])
  t.equal(upstreams.roster().entries.length, 1)
})

test('registries that change together change the roster once', async (t) => {
  const agent = await startAgent(t)
  const registries = await Promise.all([1, 2, 3].map(() => startRegistry(t, [record(agent.url)])))
  const config = { ...configOf([]), registries: registries.map((each) => each.config) }
  const { upstreams } = await openUpstreams(t, config)
  await upstreams.start()
  await until('all registries', () => upstreams.registries().every(({ agents }) => agents === 1))
  let changes = 0
  upstreams.onChange(() => {
    changes += 1
  })
  await until('the slice', () => upstreams.slices().length === 1)
  const before = changes
  for (const registry of registries) registry.list([record(agent.url, { name: 'Another name' })])
  await until('the name', () => upstreams.roster().entries[0]?.name === 'Another name')
  t.equal(changes - before, 1)
})

/** Upstreams of one registry, on a clock that is moved by hand. */
async function watched(t: Test, agents: unknown[]) {
  const registry = await startRegistry(t, agents)
  const { clock, advance } = createManualClock()
  const config = { ...configOf([]), registries: [registry.config] }
  const { upstreams } = await openUpstreams(t, config, { clock, random: () => 0.5 })
  await upstreams.start()
  const says = (what: string, holds: (status: RegistryStatus) => boolean) =>
    until(what, () => upstreams.registries().every(holds))
  await says('the first listing', ({ agents: listed }) => listed !== undefined)
  return {
    ...{ registry, upstreams, clock, advance, says },
    dropAfterMs: config.defaults.dropAfterMs,
    entries: () => upstreams.roster().entries.length,
  }
}

test('a registry that has lost most of its agents must say so twice', async (t) => {
  const all = Array.from({ length: 12 }, (_, at) => record(`https://127.0.0.1:1/${at}`))
  const { registry, upstreams, advance, says, entries } = await watched(t, all)
  const isDoubted = ({ problem }: RegistryStatus) => problem?.reason === 'shrunken_feed'

  registry.list(all.slice(0, 3))
  advance(30)
  await says('the doubt', isDoubted)
  t.equal(entries(), 12)
  t.match(
    upstreams.silentRegistries(),
    [{ url: registry.config.url, reason: 'shrunken_feed' }],
    'it is named',
  )
  t.equal(upstreams.silentRegistries()[0]?.upstreams.length, 12)

  registry.list(all)
  advance(60)
  await says('the whole list', ({ problem }) => problem === undefined)
  t.equal(entries(), 12)

  registry.list([all[0], ...all.slice(1).map(() => ({ url: 'cut off' }))])
  advance(30)
  await says('the doubt', isDoubted)
  advance(60)
  await says('the second look', ({ agents }) => agents === 1)
  advance(1_000)
  t.equal(entries(), 1, 'then it is believed')
})

test('agents whom nobody vouched for come back with the registry, whose list has not changed since', async (t) => {
  const all = [1, 2].map((at) => record(`https://127.0.0.1:1/${at}`))
  const { registry, advance, says, entries, dropAfterMs } = await watched(t, all)
  registry.list([])
  advance(30)
  await says('the empty list', ({ problem }) => problem !== undefined)
  registry.fail(true)
  advance(dropAfterMs)
  advance(1_000)
  t.equal(entries(), 0)
  registry.list(all)
  registry.fail(false)
  await until('a request', () => {
    advance(1_000)
    return entries() === 2
  })
  t.pass('they are back')
})

test('a record that is called at another place than its url is refused, with the reason', async (t) => {
  const read = (url: string, mcp_endpoint: string) => listingOf({ agents: [record(url, { mcp_endpoint })] })
  const others = [
    ['https://hub.example/acme/mcp', 'https://hub.example/evil/mcp'],
    ['https://hub.example/acme/mcp', 'https://hub.example/acme/mcp?tenant=evil'],
    ['https://s.a.example/mcp', 'https://agents.a.example/mcp'],
    ['https://s.a.example/mcp', 'http://s.a.example/mcp'],
    ['https://s.a.example/mcp', 'https://t.a.example/mcp?api_key=sk_test_1234567890abcdef'],
    ['https://s.a.example/mcp', 'nonsense'],
    ['https://hub.example/mcp', 'https://hub.example/mcp?code=evil'],
    ['https://hub.example/mcp?code=us', 'https://hub.example/mcp?code=de'],
    ['https://hub.example/mcp?tenant=A', 'https://hub.example/mcp?tenant=a'],
    ['https://hub.example/mcp?tenant=a', 'https://hub.example/mcp?tenant=a/mcp'],
  ]
  for (const [url = '', endpoint = ''] of others) {
    const listing = read(url, endpoint)
    t.same(listing?.records, [], endpoint)
    t.match(listing?.diagnostics, [/^agents\[0\]: mcp_endpoint .* is another place than url/])
    t.notMatch(listing?.diagnostics[0], /sk_test/)
  }
  const mangled = [
    ['https://hub.example/acme/mcp', 'https://hub.example/Acme/mcp/'],
    ['https://hub.example', 'https://hub.example/mcp'],
    ['https://hub.example/mcp', 'HTTPS://HUB.example:443/mcp'],
    ['https://hub.example/mcp?tenant=A', 'https://hub.example/MCP/?tenant=A'],
  ]
  for (const [url = '', endpoint = ''] of mangled) t.match(read(url, endpoint)?.records, [{ url: endpoint }])
})

test('an agent is the whole url that a registry lists, whatever its query looks like', async (t) => {
  const urls = ['code=us', 'code=de', 'a=1&&b=2', 'a=1&b=2', ''].map(
    (query) => `https://hub.example/mcp?${query}`,
  )
  const listing = listingOf({ agents: urls.map((url) => record(url)) })
  t.same(
    listing?.records.map(({ agentUrl }) => agentUrl),
    urls,
  )
  t.equal(listing?.agents, urls.length)
})

test('what a registry was shown does not come back in what it lists', async (t) => {
  const SECRET = 'north-4f9a1c-77x'
  const registry = await startRegistry(t, [
    record('https://one.example/mcp', { name: `told ${SECRET}`, member: { slug: `m ${SECRET}` } }),
    record(`https://two.example/${SECRET}/mcp`),
    record('https://three.example/mcp', { name: 'api_key=abc123456789' }),
    record('nowhere', { url: `nowhere ${SECRET}` }),
  ])
  const { send } = loopbackEgress(t)
  const headers = { authorization: `Bearer ${SECRET}` }
  const outcome = await askRegistry({ send, url: registry.config.url, headers, now: Date.now })
  t.match(outcome, { kind: 'listed', listing: { records: { length: 2 }, diagnostics: { length: 2 } } })
  t.notMatch(JSON.stringify(outcome), /4f9a1c|abc1234/)
})

test('a broken record is skipped and named', async (t) => {
  const listing = listingOf({
    agents: [
      record('https://a.example/mcp'),
      record('not a url'),
      null,
      record('https://sales.example/mcp', { type: 'sales' }),
      record('https://A.example/mcp'),
      record('https://b.example/', { mcp_endpoint: 'https://b.example/mcp', health: { online: false } }),
    ],
    count: 6,
  })
  t.match(listing?.records, [
    { agentUrl: 'https://a.example/mcp' },
    { url: 'https://A.example/mcp', agentUrl: 'https://a.example/mcp' },
    { url: 'https://b.example/mcp', agentUrl: 'https://b.example/', online: false },
  ])
  t.match(listing, { agents: 2, records: { length: 3 } })
  t.equal(listing?.diagnostics.length, 3)
  for (const body of [[], { agents: {} }, { error: 'no' }]) t.equal(listingOf(body), undefined)
  t.equal(readListing(Buffer.from('{"agents":[')), undefined)
})

const files = [
  'agents-signals.json',
  'agents-signals-health.json',
  'agents-signals-capabilities-trimmed.json',
  'agents-pagination-ignored.json',
]
for (const file of files) {
  const path = `${REGISTRY}/${file}`
  const options = existsSync(path) ? {} : { skip: `${path} is absent` }
  test(`what the real registry answered is read: ${file}`, options, async (t) => {
    const { body } = JSON.parse(readFileSync(path, 'utf8'))
    const listing = listingOf(body)
    t.equal(listing?.records.length, body.agents.length)
    t.same(listing?.diagnostics, [])
  })
}

test('a registry of ten thousand agents is read whole, one of sixteen million elements not at all', async (t) => {
  const records = Array.from({ length: 10_000 }, (_, at) =>
    record(`https://a${at}.example/mcp`, {
      capabilities: { tools: Array.from({ length: 20 }, () => ({ name: 'x' })) },
    }),
  )
  const bodies = [JSON.stringify({ agents: records }), `{"agents":[1${',1'.repeat(8_000_000)}]}`]
  const server = await startHttp((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(bodies.shift())
  }, '')
  t.teardown(server.close)
  const question = { send: loopbackEgress(t).send, url: server.url, headers: {}, now: Date.now }
  const whole = await askRegistry(question)
  t.equal(whole.kind === 'listed' && whole.listing.records.length, 10_000)
  t.match(await askRegistry(question), { kind: 'failed', reason: 'protocol_error' })
})

test('no second record of an agent, spelled otherwise, keeps it from being read', async (t) => {
  const { url } = await startStrictAgent(t)
  const others = [
    { url, mcp_endpoint: url.replace('/mcp', '/MCP') },
    { url, mcp_endpoint: `${url}/` },
    { url: url.replace('/mcp', '/%6Dcp') },
    { url: url.replace('//127', '//user:pass@127') },
    { url: url.replace('127.0.0.1', '2130706433') },
  ]
  for (const other of others) {
    const spelled = other.mcp_endpoint ?? other.url
    for (const listings of [[[record(url, other), record(url)]], [[record(url, other)], [record(url)]]]) {
      const registries = await Promise.all(listings.map((listing) => startRegistry(t, listing)))
      const config = { ...configOf([]), registries: registries.map((each) => each.config) }
      const { upstreams, close } = await openUpstreams(t, config)
      await upstreams.start()
      await until('the listings', () => upstreams.registries().every(({ agents }) => agents === 1))
      await until(`rows, although it is listed as ${spelled}`, () => upstreams.slices().length === 1)
      t.equal(upstreams.roster().entries.length, 1, spelled)
      await close()
    }
  }
})

test('an agent that is listed without its capitals is called where it is', async (t) => {
  const { url } = await startStrictAgent(t)
  const registry = await startRegistry(t, [
    record(url.replace('/mcp', '/MCP')),
    record(url.replace('/mcp', '/MCP'), { mcp_endpoint: url }),
  ])
  const { upstreams } = await openUpstreams(t, { ...configOf([]), registries: [registry.config] })
  await upstreams.start()
  await until('rows', () => upstreams.slices().length === 1)
  t.match(upstreams.roster().entries, [{ agentUrl: url.replace('/mcp', '/MCP') }])
})

test('a place that a registry adds to those of an agent is asked too', async (t) => {
  const { url } = await startStrictAgent(t)
  const elsewhere = url.replace('/mcp', '/MCP')
  const registry = await startRegistry(t, [record(elsewhere)])
  const { upstreams } = await openUpstreams(t, { ...configOf([]), registries: [registry.config] })
  await upstreams.start()
  await until('no agent there', () => upstreams.statuses()[0]?.problem !== undefined)
  registry.list([record(elsewhere), record(elsewhere, { mcp_endpoint: url })])
  await until('rows', () => upstreams.slices().length === 1, 10_000)
})

test('an agent is found although nothing answers at the first of its places', async (t) => {
  const { url } = await startStrictAgent(t, { hangs: true })
  const elsewhere = url.replace('/mcp', '/MCP')
  const registry = await startRegistry(t, [record(elsewhere), record(elsewhere, { mcp_endpoint: url })])
  const config = { ...configOf([], { timeoutMs: 500 }), registries: [registry.config] }
  const { upstreams } = await openUpstreams(t, config)
  await upstreams.start()
  await until('rows', () => upstreams.slices().length === 1, 10_000)
})

test('places in another order leave an agent undisturbed', async (t) => {
  const { url } = await startStrictAgent(t)
  const listed = [url, `${url}/`, url.replace('/mcp', '/MCP')].map((mcp_endpoint) =>
    record(url, { mcp_endpoint }),
  )
  const registry = await startRegistry(t, listed)
  const { upstreams } = await openUpstreams(t, { ...configOf([]), registries: [registry.config] })
  await upstreams.start()
  await until('rows', () => upstreams.slices().length === 1)
  const before = upstreams.statuses()[0]?.nextAttemptAt
  const places = () => upstreams.roster().entries[0]?.others ?? []
  const wanted = [...places()].reverse()
  registry.list([...listed].reverse())
  await until('the other order', () => places()[0] === wanted[0])
  t.equal(upstreams.statuses()[0]?.nextAttemptAt, before)
})

test('who adds a place to those of an agent that was found, or takes it back, leaves it undisturbed', async (t) => {
  const { url } = await startStrictAgent(t)
  const paths = ['/mcp', '/mcp/', '/Mcp', '/mCp', '/mcP', '/MCp', '/McP', '/mCP', '/MCP', '/Mcp/']
  const listed = paths.map((path) => record(url, { mcp_endpoint: url.replace('/mcp', path) }))
  const registry = await startRegistry(t, listed)
  const { upstreams } = await openUpstreams(t, { ...configOf([]), registries: [registry.config] })
  await upstreams.start()
  await until('rows', () => upstreams.slices().length === 1)
  const before = upstreams.statuses()[0]?.nextAttemptAt
  const others = () => upstreams.roster().entries[0]?.others ?? []
  registry.list([...listed].reverse())
  await until('others of too many', () => others().some((place) => place.endsWith('/Mcp/')))
  t.equal(upstreams.statuses()[0]?.nextAttemptAt, before)
  registry.list(listed.slice(0, 1))
  await until('one place', () => others().length === 0)
  t.equal(upstreams.statuses()[0]?.nextAttemptAt, before)
})

test('an agent is looked for anew when no record names the place where it was found', async (t) => {
  const { url } = await startStrictAgent(t)
  const elsewhere = url.replace('/mcp', '/MCP')
  const listed = [record(elsewhere), record(elsewhere, { mcp_endpoint: url })]
  const registry = await startRegistry(t, listed)
  const { upstreams } = await openUpstreams(t, { ...configOf([]), registries: [registry.config] })
  await upstreams.start()
  await until('rows', () => upstreams.slices().length === 1)
  registry.list(listed.slice(0, 1))
  await until('no agent there', () => upstreams.statuses()[0]?.problem?.reason === 'not_an_agent')
  registry.list(listed)
  await until('it is well', () => upstreams.statuses()[0]?.problem === undefined, 10_000)
  t.equal(upstreams.statuses()[0]?.url, url)
})
