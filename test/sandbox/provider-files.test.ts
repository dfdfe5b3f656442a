import { test } from 'tap'
import { AGENTS } from '../../sandbox/parties.js'
import { fileAt, located, open, rowsOf, walk } from './support/world.js'

const WELL_KNOWN = '/.well-known/adagents.json'
type Entry = {
  url: string
  authorization_type: string
  signal_ids?: string[]
  signal_tags?: string[]
  effective_until?: string
}
type File = { signals: { id: string; tags: string[] }[]; authorized_agents: Entry[] }

const file = async (sandbox: Parameters<typeof fileAt>[0], url: string) =>
  (await fileAt(sandbox, url)) as File

function grantedIds({ signals, authorized_agents }: File, url: string): Set<string> {
  const entries = authorized_agents.filter((entry) => entry.url === url)
  const named = entries.flatMap((entry) => entry.signal_ids ?? [])
  const tags = new Set(entries.flatMap((entry) => entry.signal_tags ?? []))
  return new Set([
    ...named,
    ...signals.filter((each) => each.tags.some((tag) => tags.has(tag))).map(({ id }) => id),
  ])
}

test('the four providers grant by ids, by tags, through a pointer, and not at all', async (t) => {
  const sandbox = await open(t, { signals: 480 })
  const motorledger = await file(sandbox, `https://motorledger.example${WELL_KNOWN}`)
  t.ok(motorledger.authorized_agents.every((entry) => entry.authorization_type === 'signal_ids'))
  const larder = await file(sandbox, `https://larderloyalty.example${WELL_KNOWN}`)
  t.ok(larder.authorized_agents.every((entry) => entry.authorization_type === 'signal_tags'))
  const pointer = await fileAt(sandbox, `https://atlasb2b.example${WELL_KNOWN}`)
  t.equal(pointer.authoritative_location, 'https://rights.ledgerline.example/atlas/adagents.json')
  const atlas = await file(sandbox, String(pointer.authoritative_location))
  t.ok(atlas.signals.length > 50)
  const quietfield = await fetch(located(sandbox, `https://quietfield.example${WELL_KNOWN}`))
  t.equal(quietfield.status, 404)
})

test('the reseller is granted nothing, twice by the breadth of a hair', async (t) => {
  const sandbox = await open(t)
  const urls = [
    `https://motorledger.example${WELL_KNOWN}`,
    `https://larderloyalty.example${WELL_KNOWN}`,
    'https://rights.ledgerline.example/atlas/adagents.json',
  ]
  const files = await Promise.all(urls.map((url) => file(sandbox, url)))
  const listed = files.flatMap(({ authorized_agents }) => authorized_agents.map(({ url }) => url))
  t.notOk(listed.includes(AGENTS.gullwing.url))
  t.ok(listed.includes('https://signals.gullwing.example/mcp/'), 'a trailing slash away')
  t.ok(listed.includes('https://signals.gullwing.example/MCP'), 'a letter case away')
  const sold = rowsOf(await walk(sandbox, 'gullwing'))
  t.ok(
    sold.length > 0 && sold.every(({ signal_type }) => signal_type === 'marketplace'),
    'and it sells nothing else',
  )
})

test('an agent that is granted most signals also offers some that it is not', async (t) => {
  const sandbox = await open(t)
  const motorledger = await file(sandbox, `https://motorledger.example${WELL_KNOWN}`)
  const granted = grantedIds(motorledger, AGENTS.meridian.url)
  const offered = rowsOf(await walk(sandbox, 'meridian')).flatMap(({ signal_ref: ref }) =>
    ref?.scope === 'data_provider' && ref.data_provider_domain === 'motorledger.example'
      ? [ref.signal_id]
      : [],
  )
  t.ok(offered.some((id) => granted.has(id)))
  t.ok(offered.some((id) => !granted.has(id)))
  const ended = (await file(sandbox, `https://larderloyalty.example${WELL_KNOWN}`)).authorized_agents.find(
    ({ url }) => url === AGENTS.harborlight.url,
  )
  t.equal(ended?.effective_until, '2025-09-30T23:59:59Z', 'a season that is over')
})

test('a file answers conditional requests, and a replaced one counts from the next request', async (t) => {
  const sandbox = await open(t)
  const url = located(sandbox, `https://motorledger.example${WELL_KNOWN}`)
  const first = await fetch(url)
  const etag = first.headers.get('etag') ?? ''
  await first.text()
  t.equal((await fetch(url, { headers: { 'if-none-match': etag } })).status, 304)
  const held = sandbox.provider('motorledger.example') as unknown as File
  sandbox.setProvider('motorledger.example', { ...held, authorized_agents: [] })
  const second = await fetch(url, { headers: { 'if-none-match': etag } })
  t.equal(second.status, 200)
  t.same(((await second.json()) as File).authorized_agents, [])
  sandbox.setProvider('motorledger.example', '<html>')
  t.equal(await (await fetch(url)).text(), '<html>')
  sandbox.setProvider('motorledger.example', undefined)
  t.equal((await fetch(url)).status, 404)
})
