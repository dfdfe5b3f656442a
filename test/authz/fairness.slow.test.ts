import fc from 'fast-check'
import { test } from 'tap'
import { createWanted } from '../../src/authz/provider/domains.js'
import { proven } from '../support/proven.js'
import { until } from '../support/until.js'
import { createWorld, DAY, granting, HOUR, named, WELL_KNOWN } from './world.js'

const invented = (count: number, suffix = '.example') =>
  Array.from({ length: count }, (_, i) => `x${i}${suffix}`)

test('60,000 invented domains fill the share of their upstream and nobody else is refused', async (t) => {
  const upstreams = new Map([
    ['hostile', invented(60_000)],
    ['honest', ['p.example', 'q.example']],
  ])
  const { owners, refused } = createWanted().wantedOf(upstreams, {
    perUpstream: 100_000,
    isHeld: () => false,
  })
  t.equal(owners.size, 50_000, 'in all')
  t.same([owners.get('p.example'), owners.get('q.example')], [['honest'], ['honest']])
  t.ok(refused.size > 0 && [...refused].every((domain) => domain.startsWith('x')))
})

test('subdomains of one name leave the others of their upstream room, and growing costs nothing that is held', async (t) => {
  const { wantedOf } = createWanted()
  const domains = [...invented(500, '.evil.example'), 'z.example']
  const few = wantedOf(named(domains), { perUpstream: 10, isHeld: () => false })
  t.ok(few.owners.has('z.example'))
  t.equal(few.owners.size, 10)
  const grown = wantedOf(named(['a.example', ...domains]), {
    perUpstream: 10,
    isHeld: (domain) => few.owners.has(domain),
  })
  t.same([...grown.owners.keys()].sort(), [...few.owners.keys()].sort())
})

for (const [where, urlOf, owner] of [
  [
    'one domain',
    (at: number) => `https://${at % 2 ? `s${at}.` : ''}hostile.example/${at}`,
    'hostile.example',
  ],
  ['one address', (at: number) => `https://198.51.100.7:${4_000 + at}/mcp`, '198.51.100.7'],
  ['one name of a network', (at: number) => `http://hostile:${4_000 + at}/mcp`, 'hostile'],
] as const) {
  test(`a hundred urls of one owner take no more than one owner may: ${where}`, async (t) => {
    const honest = Array.from({ length: 3_000 }, (_, i) => `p${i}.example`)
    const upstreams = new Map([
      ...Array.from({ length: 100 }, (_, at): [string, string[]] => [
        urlOf(at),
        invented(3_000, `.of${at}.example`),
      ]),
      ['https://honest.example/mcp', honest],
    ])
    const { owners, refused } = createWanted().wantedOf(upstreams, {
      perUpstream: 10_000,
      isHeld: () => true,
    })
    t.equal(owners.size, 50_000)
    t.ok(honest.every((domain) => owners.has(domain) && !refused.has(domain)))
    t.same(owners.get('x0.of99.example'), [owner], 'and fetches and bytes are counted for that one')
  })
}

test('whoever names no more than an equal share has every name looked at', async (t) => {
  const names = fc.array(
    fc.nat({ max: 60_000 }).map((n) => `d${n}.example`),
    { maxLength: 60 },
  )
  proven(
    t,
    2,
    fc.property(names, names, fc.integer({ min: 1, max: 40 }), (one, two, perUpstream) => {
      const hostile = invented(60_000)
      const named = new Map([
        ['hostile', hostile],
        ['one', one],
        ['two', two],
      ])
      const { owners, refused } = createWanted().wantedOf(named, {
        perUpstream: 1_000_000,
        isHeld: () => false,
      })
      for (const domain of [...one, ...two]) if (!owners.has(domain)) throw new Error(domain)
      const small = createWanted().wantedOf(
        new Map([
          ['one', one],
          ['two', two],
        ]),
        { perUpstream, isHeld: () => false },
      )
      const distinct = new Set(one)
      if (distinct.size <= perUpstream)
        for (const domain of distinct) if (!small.owners.has(domain)) throw new Error(domain)
      if (small.owners.size > 2 * perUpstream || owners.size + refused.size === 0) throw new Error('too many')
    }),
  )
})

test('a file without room is let go of, told, and looked at again when there is room', async (t) => {
  const hosts = ['p.example', 'a.evil.example', 'b.evil.example', 'c.evil.example']
  const world = await createWorld({ hosts, limits: () => ({ domainsPerUpstream: 100, bytes: 3_000_000 }) })
  t.teardown(world.close)
  const padded = (what: string) => ({ body: granting(['s1'], { what, pad: 'x'.repeat(900_000) }) })
  for (const host of hosts) world.web.page(`${host}${WELL_KNOWN}`, padded(host))
  world.providers().want(named(hosts))
  await world.providers().settled()
  const states = () =>
    Object.fromEntries(
      world
        .providers()
        .states()
        .map(({ domain, document, problem }) => [domain, document ? 'held' : problem?.reason]),
    )
  const { 'p.example': honest, ...others } = states()
  t.equal(honest, 'held')
  t.same(Object.values(others).sort(), ['held', 'held', 'over_budget'])

  const gone = Object.keys(others).find((domain) => others[domain] === 'held') as string
  world.providers().want(named(hosts.filter((host) => host !== gone)))
  world.jump(1_000)
  world.runDue()
  await world.providers().settled()
  t.same(Object.values(states()), ['held', 'held', 'held'])
})

test('a file that is being looked at when room comes is looked at once', async (t) => {
  const hosts = ['p.example', 'q.example', 'other.example']
  const world = await createWorld({ hosts, limits: () => ({ domainsPerUpstream: 100, bytes: 2_000_000 }) })
  t.teardown(world.close)
  const body = (host: string) => granting(['s1'], { host, pad: 'x'.repeat(900_000) })
  for (const host of hosts) world.web.page(`${host}${WELL_KNOWN}`, { body: body(host) })
  const providers = world.providers()
  providers.want(named(hosts))
  await providers.settled()
  const lacking = hosts.find((host) => !providers.state(host)?.document) as string
  const asked = () => world.web.asked(`${lacking}${WELL_KNOWN}`)
  let answer: (() => void) | undefined
  world.web.page(`${lacking}${WELL_KNOWN}`, (_request, response) => {
    answer = () => void response.end(JSON.stringify(body(lacking)))
    if (asked() > 2) answer()
  })
  const again = providers.refresh(lacking)
  await until(asked, (times) => times === 2)
  providers.want(named(hosts.filter((host) => host === lacking || host === 'p.example')))
  world.jump(1_000)
  world.runDue()
  answer?.()
  await again
  await providers.settled()
  t.ok(providers.state(lacking)?.document)
  t.equal(asked(), 2)
})

test('a file counts for whoever names it now: who named it once loses nothing for it', async (t) => {
  const hosts = ['p.example', 'q.example', 'other.example', 'cdn.example']
  const world = await createWorld({ hosts, limits: () => ({ domainsPerUpstream: 100, bytes: 3_000_000 }) })
  t.teardown(world.close)
  for (const host of hosts) {
    const pad = 'x'.repeat(host === 'cdn.example' ? 1_000_000 : 900_000)
    world.web.page(`${host}${WELL_KNOWN}`, { body: granting(['s1'], { host, pad }) })
  }
  const providers = world.providers()
  const wantOf = async (one: string[], other: string[]) => {
    providers.want(new Map([...named(one, 'https://one.example/mcp'), ...named(other)]))
    await providers.settled()
  }
  await wantOf(['p.example', 'q.example'], ['other.example'])
  await wantOf(['cdn.example'], ['p.example', 'q.example', 'other.example'])
  t.ok(providers.state('cdn.example')?.document)
  t.equal(providers.states().filter(({ document }) => document).length, 3)
})

test('a document that many providers point to counts once and leaves all of them together', async (t) => {
  const pointing = Array.from({ length: 20 }, (_, i) => `p${i}.example`)
  const world = await createWorld({
    hosts: [...pointing, 'network.example'],
    limits: () => ({ domainsPerUpstream: 100, bytes: 400_000 }),
  })
  t.teardown(world.close)
  for (const host of pointing)
    world.web.page(`${host}${WELL_KNOWN}`, {
      body: { authoritative_location: 'https://network.example/all' },
    })
  world.web.page('network.example/all', { body: granting(['s1'], { pad: 'x'.repeat(300_000) }) })
  world.providers().want(named(pointing))
  await world.providers().settled()
  t.ok(
    world
      .providers()
      .states()
      .every(({ document }) => document),
  )
  world.web.page('network.example/all', { body: granting(['s1'], { pad: 'x'.repeat(500_000) }) })
  world.jump(DAY)
  await world.providers().refresh('p0.example')
  t.equal(world.providers().state('p0.example')?.problem?.reason, 'over_budget')
})

test('which domains are not looked at is told with the time since when, and logged when that begins and ends', async (t) => {
  let domainsPerUpstream = 1
  const world = await createWorld({ limits: () => ({ domainsPerUpstream, bytes: 1024 ** 3 }) })
  t.teardown(world.close)
  const providers = world.providers()
  const start = world.clock.now()
  const since = (reason: string) =>
    providers.states().flatMap(({ problem }) => (problem?.reason === reason ? [problem.since - start] : []))
  providers.want(named(['p.example', 'q.example', 'localhost']))
  world.jump(HOUR)
  const grown = named(['p.example', 'q.example', 'other.example', 'localhost'])
  providers.want(grown)
  t.same(since('bad_domain'), [0])
  t.same(since('too_many_domains').sort(), [0, HOUR])
  for (const limit of [9, 1]) {
    domainsPerUpstream = limit
    providers.want(grown)
  }
  t.same(since('too_many_domains'), [HOUR, HOUR])
  t.same(
    world.logged.filter(({ level }) => level === 'warn').map(({ fields }) => fields),
    [
      { refused: 1, limit: 1 },
      { refused: 0, limit: 9 },
      { refused: 2, limit: 1 },
    ],
  )
})
