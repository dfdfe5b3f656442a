import { test } from 'tap'
import type { RegistryRecord } from '../../src/upstreams/roster/registry.js'
import { makeRoster, type RosterPolicy } from '../../src/upstreams/roster/roster.js'

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
