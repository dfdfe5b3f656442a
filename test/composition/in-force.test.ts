import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { test } from 'tap'
import { createInForce, createReload, followFile } from '../../src/composition/running-config.js'
import { upstreamsSettings } from '../../src/composition/settings.js'
import { loadConfig, parseConfig } from '../../src/config/load.js'
import type { Config } from '../../src/config/values.js'
import type { Clock } from '../../src/net/clock.js'
import { startStrictAgent } from '../support/strict-agent.js'
import { startHttp } from '../support/upstream-agent.js'
import { openUpstreams, until } from '../support/upstream-world.js'

const AGENT = 'https://signals.example/mcp'

function configOf(names: string[]): Config {
  const upstreams = names.map((name) => ({ url: `https://${name}.example/mcp` }))
  return parseConfig('test', JSON.stringify({ upstreams }), {})
}

const hurried: Clock = {
  now: Date.now,
  after(_ms, task) {
    const waiting = setImmediate(task)
    return () => clearImmediate(waiting)
  },
}

const left = ({ upstreams }: Config) => upstreams.filter(({ exclude }) => !exclude).map(({ url }) => url)

test('what an operator changed is in force until the file is read again', async (t) => {
  const inForce = createInForce(configOf(['SIGNALS']))
  const seen: string[][] = []
  inForce.onChange((config) => seen.push(left(config)))
  let changes = 0
  inForce.onChanged(() => {
    changes += 1
  })
  inForce.override({ ...inForce.overrides(), excluded: new Map([[AGENT, true]]) })
  t.same(seen, [[]], 'the agent is left out')
  t.same(left(inForce.file()), ['https://SIGNALS.example/mcp'], 'the file is as it was')
  inForce.read(configOf(['signals', 'other']))
  t.same(seen[1], [AGENT, 'https://other.example/mcp'])
  t.equal(inForce.overrides().excluded.size, 0)
  t.equal(changes, 2)
})

test('it ends when the file is read again, also when that says what it said before', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-in-force-'))
  const file = join(folder, 'config.yaml')
  await writeFile(file, 'upstreams: [{ id: signals, url: "https://signals.example/mcp" }]\n')
  const followed = followFile(file)
  const config = await loadConfig(file, {})
  const inForce = createInForce(config)
  const { reload, close, state } = createReload({
    ...{ config, followed, environment: {}, clock: hurried, started: Promise.resolve() },
    apply(next) {
      inForce.read(next)
      return []
    },
    log: pino({ level: 'silent' }),
  })
  t.teardown(async () => {
    close()
    await reload()
    await rm(folder, { recursive: true, force: true })
  })
  let changes = 0
  inForce.onChanged(() => {
    changes += 1
  })
  inForce.override({ excluded: new Map([[AGENT, true]]), suspended: new Set(['somebody']) })
  await reload()
  t.same([inForce.overrides().excluded.size, inForce.overrides().suspended.size], [0, 0])
  inForce.override({ excluded: new Map([[AGENT, true]]), suspended: new Set() })
  await appendFile(file, '# a comment\n')
  await reload()
  t.equal(inForce.overrides().excluded.size, 0)
  t.equal(state().revision, config.revision)
  t.equal(changes, 4)
  await reload()
  t.equal(changes, 4, 'what is in force is not taken up anew')
  await writeFile(file, 'upstreams: [')
  await reload()
  inForce.override({ excluded: new Map([[AGENT, true]]), suspended: new Set() })
  await reload()
  t.equal(inForce.overrides().excluded.size, 1, 'a file with an error ends nothing')
})

test('a configuration that one part cannot take up changes nothing in any', async (t) => {
  const first = configOf(['signals'])
  const inForce = createInForce(first)
  const running: { early?: string[]; late?: string[] } = {}
  inForce.onChange((config) => {
    running.early = left(config)
  })
  inForce.onChange((config) => {
    if (config.upstreams.length > 1) throw new Error('two of one name')
    running.late = left(config)
  })
  inForce.onChanged(() => t.fail('nothing changed'))
  const excluded = new Map([['https://other.example/mcp', true]])
  t.throws(() => inForce.override({ ...inForce.overrides(), excluded }), { message: 'two of one name' })
  t.same(running, { early: [AGENT], late: [AGENT] })
  t.equal(inForce.overrides().excluded.size, 0)
  t.throws(() => inForce.read(configOf(['signals', 'other'])), { message: 'two of one name' })
  t.same(running, { early: [AGENT], late: [AGENT] })
  t.equal(inForce.file(), first)
})

test('an agent that an operator leaves out and lets in again is called where the registry says', async (t) => {
  const { url } = await startStrictAgent(t)
  const agentUrl = url.replace('/mcp', '/MCP')
  const listing = { agents: [{ name: 'An agent', url: agentUrl, mcp_endpoint: url, member: { slug: 'm' } }] }
  const registry = await startHttp((_, response) => void response.end(JSON.stringify(listing)), '')
  t.teardown(registry.close)
  const text = JSON.stringify({
    registries: [{ url: registry.origin }],
    discovery: { include: { members: ['m'] } },
  })
  const inForce = createInForce(parseConfig('test', text, {}))
  const { upstreams } = await openUpstreams(t, upstreamsSettings(inForce.file()))
  inForce.onChange((config) => upstreams.reconfigure(upstreamsSettings(config)))
  await upstreams.start()
  await until('its rows', () => upstreams.slices().length === 1)
  const listed = upstreams.roster().entries
  inForce.override({ ...inForce.overrides(), excluded: new Map([[agentUrl, true]]) })
  t.same(upstreams.roster(), { entries: [], excluded: [{ url: agentUrl, reason: 'excluded' }] })
  inForce.override({ ...inForce.overrides(), excluded: new Map([[agentUrl, false]]) })
  t.same(upstreams.roster(), { entries: listed, excluded: [] })
  await until('its rows again', () => upstreams.slices().length === 1)
})
