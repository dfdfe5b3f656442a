import { test } from 'tap'
import { AGENTS, FOGBANK } from '../../sandbox/parties.js'
import type { Sandbox } from '../../sandbox/world.js'
import { located, open } from './support/world.js'

type Listing = { agents: Record<string, unknown>[]; count: number }

const at = (sandbox: Sandbox, query: string) =>
  located(sandbox, `${sandbox.registryUrl}/api/registry/agents${query}`)
const listing = async (sandbox: Sandbox, query: string) =>
  (await (await fetch(at(sandbox, query))).json()) as Listing

test('it lists the signals agents: the dead one, and one of them twice', async (t) => {
  const sandbox = await open(t)
  const { agents, count } = await listing(sandbox, '?type=signals')
  t.equal(count, agents.length)
  const urls = agents.map(({ url }) => url)
  const expected = [...Object.values(AGENTS), FOGBANK].map(({ url }) => url)
  t.same([...new Set(urls)].sort(), expected.sort())
  t.equal(urls.length, expected.length + 1)
  t.ok(
    agents.every(({ type, protocol }) => type === 'signals' && protocol === 'mcp'),
    'protocol says mcp, whatever is true',
  )
  t.ok((await listing(sandbox, '')).count > count, 'without a type, agents of other types too')
})

test('flags add their sub-objects, and only the literal true counts', async (t) => {
  const sandbox = await open(t)
  for (const [flag, field] of [
    ['health', 'health'],
    ['capabilities', 'capabilities'],
    ['compliance', 'compliance'],
    ['properties', 'property_summary'],
  ] as const) {
    const on = await listing(sandbox, `?type=signals&${flag}=true`)
    const off = await listing(sandbox, `?type=signals&${flag}=1`)
    t.ok(
      on.agents.every((agent) => field in agent),
      flag,
    )
    t.notOk(
      off.agents.some((agent) => field in agent),
      flag,
    )
  }
})

test('unknown types are empty, a wrong verification mode is an error, and measurement filters find no agent', async (t) => {
  const sandbox = await open(t)
  t.same(await listing(sandbox, '?type=nosuch'), { agents: [], count: 0 })
  t.same(await listing(sandbox, '?q=viewability'), { agents: [], count: 0 })
  const wrong = await fetch(at(sandbox, '?verification_mode=zzz'))
  t.equal(wrong.status, 400)
  t.match(await wrong.json(), { valid_values: ['spec', 'live'] })
})

test('a held etag is answered with 304', async (t) => {
  const sandbox = await open(t)
  const first = await fetch(at(sandbox, '?type=signals'))
  await first.text()
  const headers = { 'if-none-match': first.headers.get('etag') ?? '' }
  t.match(headers['if-none-match'], /^W\//)
  t.equal((await fetch(at(sandbox, '?type=signals'), { headers })).status, 304)
  t.equal((await fetch(at(sandbox, '?type=sales'), { headers })).status, 200)
})
