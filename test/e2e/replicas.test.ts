/** Processes that share a database read each upstream once, and show one feed. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'tap'
import { NO_POSTGRES } from '../store/support/storages.js'
import { type Running, replicasOver, type Said, until } from '../support/replicas.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'

const COUNT = 250 // three pages

const rows = (version: string) =>
  Array.from({ length: COUNT }, (_, at) => ({
    signal_agent_segment_id: `segment_${at}`,
    name: `Signal ${at} of ${version}`,
    description: 'People who drink coffee',
    signal_type: 'owned',
    data_provider: 'A House',
    coverage_percentage: 10,
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: true }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 1, currency: 'USD' }],
  }))

test('three replicas read an upstream as often as one does, and each change reaches all', {
  skip: NO_POSTGRES,
}, async (t) => {
  const agent = wholesaleAgent(rows('v1'), 'v1')
  let version = 'v1'
  const walks: string[] = [] // begun because the version in the question was not the feed's any more
  let introductions = 0
  const { url, close } = await startMcpAgent((task, args) => {
    if (task === 'get_adcp_capabilities') introductions += 1
    const { if_wholesale_feed_version: known } = args
    if (known !== undefined && known !== version) walks.push(`${known} to ${version}`)
    return agent.handle(task, args)
  })
  t.teardown(close)
  const start = await replicasOver(t, [{ id: 'a', url, protocol: 'mcp' }])
  if (!start) return
  const replicas = [await start(), ...(await Promise.all([start(), start()]))]
  for (const { wholesale } of replicas) {
    const answer = await until(wholesale, ({ pagination }) => pagination?.total_count === COUNT)
    t.notOk(answer.incomplete, 'nothing is missing')
  }
  t.equal(introductions, 1, 'who came later took what was there')
  t.same(walks, [])

  const publish = (next: string) => {
    version = next
    agent.publish(rows(next), next)
  }
  publish('v2')
  const versions = await Promise.all(
    replicas.map(async ({ wholesale }) => {
      const answer = await until(wholesale, ({ signals }) => signals[0].name.endsWith('v2'))
      return answer.wholesale_feed_version
    }),
  )
  t.equal(new Set(versions).size, 1)
  t.same(walks, ['v1 to v2'], 'one of them read it again')

  await replicas[0]?.close()
  publish('v3')
  for (const { wholesale } of replicas.slice(1)) {
    await until(wholesale, ({ signals }) => signals[0].name.endsWith('v3'))
  }
  t.same(walks, ['v1 to v2', 'v2 to v3'], 'another one took the reading up')
})

test('a provider´s file is fetched once, and what was found is known to all', {
  skip: NO_POSTGRES,
}, async (t) => {
  let fetched = 0
  const server = createServer((request, response) => {
    if (request.url?.includes('adagents.json')) fetched += 1
    response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const provided = rows('v1')
    .slice(0, 3)
    .map((row, at) => ({
      ...row,
      signal_ref: { scope: 'data_provider', data_provider_domain: 'house.example', signal_id: `s${at}` },
    }))
  const { url, close } = await startMcpAgent(wholesaleAgent(provided, 'v1').handle)
  t.teardown(close)
  const start = await replicasOver(t, [{ id: 'a', url, protocol: 'mcp' }], {
    authorization: { policy: 'strict' },
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { 'house.example': `http://127.0.0.1:${port}` } },
  })
  if (!start) return
  const replicas = [await start(), ...(await Promise.all([start(), start()]))]
  for (const { wholesale } of replicas) {
    const answer = await until(wholesale, ({ incomplete }) => incomplete === undefined)
    t.same(answer.signals, [], 'nobody vouches for its signals')
  }
  t.equal(fetched, 1)
})

test('a walk goes on at any replica in the snapshot that it began with', { skip: NO_POSTGRES }, async (t) => {
  const agent = wholesaleAgent(rows('v0'), 'v0')
  const { url, close } = await startMcpAgent(agent.handle)
  t.teardown(close)
  const start = await replicasOver(t, [{ id: 'a', url, protocol: 'mcp' }])
  if (!start) return
  const replicas = [await start(), await start(), await start()]
  const at = (turn: number) => replicas[turn % replicas.length] as Running
  const page = (turn: number, cursor?: string) =>
    at(turn).wholesale({ pagination: { max_results: 100, ...(cursor && { cursor }) } })

  /** All pages, each of the next replica; `between` happens after the first. */
  async function walk(turn: number, between: () => Promise<unknown> = async () => {}) {
    const pages = [await page(turn)]
    await between()
    for (let next = turn + 1; pages.at(-1)?.pagination.has_more; next += 1) {
      pages.push(await page(next, pages.at(-1)?.pagination.cursor))
    }
    const versions = new Set(pages.map((one) => one.wholesale_feed_version))
    const names = pages.flatMap(({ signals }) => signals.map(({ name }: Said) => name as string))
    const feeds = new Set(names.map((name) => name.split(' ').at(-1)))
    return {
      torn: versions.size > 1 || feeds.size > 1 || new Set(names).size !== COUNT,
      feed: [...feeds].join(),
    }
  }

  const seenAt = (turn: number, version: string) =>
    until(
      () => page(turn),
      ({ signals }) => signals[0].name.endsWith(version),
    )
  for (const [turn, version] of ['v1', 'v2', 'v3'].entries()) {
    const before = `v${turn}`
    t.same(
      await walk(turn, async () => {
        agent.publish(rows(version), version)
        for (const other of [1, 2]) await seenAt(turn + other, version)
      }),
      { torn: false, feed: before },
      'replaced everywhere, where nobody walked in it either',
    )
    await seenAt(turn, version)
  }
  const walks = []
  for (let turn = 0; turn < 12; turn += 1) {
    if (turn % 4 === 0) agent.publish(rows(`w${turn}`), `w${turn}`)
    walks.push(await walk(turn))
  }
  t.same(
    walks.filter(({ torn }) => torn),
    [],
    'while replicas take up what is new',
  )

  const { pagination } = await page(0)
  await at(1).close()
  agent.publish(rows('x'), 'x')
  await seenAt(0, 'x')
  replicas[1] = await start()
  const second = await page(1, pagination.cursor)
  t.not(second.signals[0].name.split(' ').at(-1), 'x', 'at one that began after it was replaced')
})
