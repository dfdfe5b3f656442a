import { deepEqual } from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { makeRoster, type Roster, type RosterPolicy } from '../../src/upstreams/roster/roster.js'
import type { RegistryRecord } from '../../src/upstreams/rows/registry-records.js'
import { costRatio } from '../support/cost-ratio.js'
import { proven } from '../support/proven.js'

const MOST_LISTED = 10_000 // docs/security.md
const URL = 'https://a.example/mcp'

const record = (more: Partial<RegistryRecord> = {}): RegistryRecord => ({
  ...{ url: URL, agentUrl: URL, name: 'An agent', verified: false },
  ...more,
})

const listed = (listings: readonly (readonly RegistryRecord[])[], policy: RosterPolicy): Roster =>
  makeRoster({
    registries: listings.map((records, at) => ({ url: `https://${at}.registry.example`, records })),
    statics: [],
    policy,
  })

/** In one registry, and in two. */
const bothWays = (first: RegistryRecord, second: RegistryRecord) => [[[first, second]], [[first], [second]]]

test("a stranger's record keeps no agent out that another record lets in", async (t) => {
  const stranger = record({ name: 'A stranger', member: 'stranger', url: `${URL}/` })
  const own = record({ name: 'Its name', member: 'm', verified: true })
  for (const policy of [
    { verifiedOnly: true },
    { include: { members: ['m'] } },
    { include: { members: ['m'] }, verifiedOnly: true },
  ]) {
    for (const listings of [...bothWays(stranger, own), ...bothWays(own, stranger)]) {
      const { entries, excluded } = listed(listings, policy)
      t.match(entries, [{ url: URL, name: 'Its name', member: 'm', verified: true, others: undefined }])
      t.same(excluded, [])
    }
  }
})

test('no two records let in together what neither lets in', async (t) => {
  const policy = { include: { members: ['m'] }, verifiedOnly: true }
  for (const listings of bothWays(record({ member: 'stranger', verified: true }), record({ member: 'm' }))) {
    const { entries, excluded } = listed(listings, policy)
    t.same(entries, [])
    t.same(excluded, [{ url: URL, reason: 'not_verified' }], 'once, by the record that came furthest')
  }
})

test('an agent takes its turn among ten thousand by the first record that counts', async (t) => {
  const many = Array.from({ length: MOST_LISTED }, (_, at) => {
    const url = `https://a${at}.example/mcp`
    return record({ url, agentUrl: url, verified: true })
  })
  const { entries, excluded } = listed([[record(), ...many], [record({ verified: true })]], {
    verifiedOnly: true,
  })
  t.equal(entries.length, MOST_LISTED)
  t.same(excluded, [{ url: URL, reason: 'too_many' }])
})

test('an agent that is left out has the name by which it is asked for', async (t) => {
  const { excluded } = listed([[record({ url: `${URL}/` })]], { verifiedOnly: true })
  t.same(excluded, [{ url: URL, reason: 'not_verified' }])
})

test('ten thousand records are held to a thousand urls in the time of none', async (t) => {
  const many = Array.from({ length: MOST_LISTED }, (_, at) => {
    const url = `https://a${at}.example/mcp`
    return record({ url, agentUrl: url })
  })
  const urls = many.slice(0, 1_000).map(({ url }) => url)
  const under = (policy: RosterPolicy) => ({ work: () => listed([many], policy), times: 1 })
  t.ok((await costRatio(under({}), under({ exclude: { urls } }), 2)) < 2)
})

const MEMBERS = ['m0', 'm1', 'm2']
const AGENTS = ['https://a.example/mcp', 'https://b.example/mcp', 'https://c.example/']

const anyRecord = fc
  .record(
    {
      agentUrl: fc.constantFrom(...AGENTS),
      end: fc.constantFrom('', '/'),
      name: fc.constantFrom('x', 'y'),
      member: fc.constantFrom(...MEMBERS),
      verified: fc.boolean(),
    },
    { requiredKeys: ['agentUrl', 'end', 'name', 'verified'] },
  )
  .map(({ end, ...rest }): RegistryRecord => ({ ...rest, url: rest.agentUrl.replace(/\/$/, '') + end }))

const anyRule = fc.record(
  {
    urls: fc.subarray([...AGENTS, 'HTTPS://A.EXAMPLE:443/mcp']),
    members: fc.subarray(MEMBERS),
  },
  { requiredKeys: [] },
)

const anyPolicy = fc.record(
  { include: anyRule, exclude: anyRule, verifiedOnly: fc.boolean() },
  { requiredKeys: [] },
)

/** The rule of docs/upstreams.md, agent by agent. */
function expected(listings: readonly (readonly RegistryRecord[])[], policy: RosterPolicy) {
  const isNamed = (rule: RosterPolicy['include'], { agentUrl, member = '' }: RegistryRecord) =>
    (rule?.members ?? []).includes(member) ||
    (rule?.urls ?? []).some((url) => url.toLowerCase().replace(':443', '') === agentUrl)
  const entries: object[] = []
  const excluded: object[] = []
  for (const agentUrl of AGENTS) {
    const records = listings
      .flatMap((each, at) => each.map((one) => ({ ...one, source: `https://${at}.registry.example` })))
      .filter((one) => one.agentUrl === agentUrl)
    const included = records.filter((one) => !policy.include || isNamed(policy.include, one))
    const [first, ...more] = included.filter(({ verified }) => verified || !policy.verifiedOnly)
    if (records.length === 0) continue
    if (records.some((one) => isNamed(policy.exclude, one)))
      excluded.push({ url: agentUrl, reason: 'excluded' })
    else if (first) {
      const { name, member, verified, source } = first
      const places = new Set([first, ...more].map(({ url }) => url))
      entries.push({ agentUrl, name, member, verified, source, places: [...places].sort() })
    } else {
      excluded.push({ url: agentUrl, reason: included.length > 0 ? 'not_verified' : 'not_included' })
    }
  }
  return { entries, excluded }
}

test('several records of one agent, any policy: as the docs say', async (t) => {
  const byUrl = (one: { url: string }, other: { url: string }) => (one.url < other.url ? -1 : 1)
  proven(
    t,
    500,
    fc.property(
      fc.array(fc.array(anyRecord, { maxLength: 8 }), { maxLength: 3 }),
      anyPolicy,
      (listings, policy) => {
        const made = listed(listings, policy)
        const entries = made.entries.map(
          ({ agentUrl, url, others = [], name, member, verified, source }) => ({
            ...{ agentUrl, name, member, verified, source, places: [url, ...others].sort() },
          }),
        )
        deepEqual({ entries, excluded: [...made.excluded].sort(byUrl) }, expected(listings, policy))
      },
    ),
  )
})
