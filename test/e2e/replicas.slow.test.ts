/** Processes that share a database read each upstream once, and show one feed. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { test } from 'tap'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { type Running, replicasOver, type Said } from '../support/replicas.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'

const COUNT = 250 // three pages

const AUTHORIZES_ANOTHER = {
  signals: [{ id: 's0', name: 'S', value_type: 'binary' }],
  authorized_agents: [
    {
      ...{ url: 'https://another.example/mcp', authorized_for: 'x' },
      ...{ authorization_type: 'signal_ids', signal_ids: ['s0'] },
    },
  ],
}

const rows = (version: string, count = COUNT) =>
  Array.from({ length: count }, (_, at) => ({
    signal_agent_segment_id: `segment_${at}`,
    name: `Signal ${at} of ${version}`,
    description: 'People who drink coffee',
    signal_type: 'owned',
    data_provider: 'A House',
    coverage_percentage: 10,
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: true }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 1, currency: 'USD' }],
  }))

test('three replicas read upstreams and providers as often as one does, and show one feed', {
  skip: NO_POSTGRES,
}, async (t) => {
  let isAway = false
  const provider = createServer((request, response) => {
    if (isAway) request.socket.destroy()
    else response.end(JSON.stringify(AUTHORIZES_ANOTHER))
  }).listen(0, '127.0.0.1')
  await once(provider, 'listening')
  t.teardown(() => provider.close())
  const provided = rows('p', 3).map((row, at) => ({
    ...row,
    signal_ref: { scope: 'data_provider', data_provider_domain: 'house.example', signal_id: `s${at}` },
  }))
  const withheld = await startMcpAgent(wholesaleAgent(provided, 'p').handle)
  t.teardown(withheld.close)

  const agent = wholesaleAgent(rows('v0'), 'v0')
  let version = 'v0'
  const readings: string[] = [] // begun because the version in the question was not the feed's any more
  let confirmed = 0
  let introductions = 0
  const { url, close } = await startMcpAgent((task, args) => {
    if (task === 'get_adcp_capabilities') introductions += 1
    const { if_wholesale_feed_version: known } = args
    if (known === version) confirmed += 1
    else if (known !== undefined) readings.push(`${known} to ${version}`)
    return agent.handle(task, args)
  })
  t.teardown(close)
  const publish = (next: string) => {
    version = next
    agent.publish(rows(next), next)
  }

  const upstreams = [
    { id: 'a', url, protocol: 'mcp' },
    { id: 'b', url: withheld.url, protocol: 'mcp' },
  ]
  const { port } = provider.address() as AddressInfo
  const start = await replicasOver(t, upstreams, {
    authorization: { policy: 'observe', providers: { 'house.example': { policy: 'strict' } } },
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { 'house.example': `http://127.0.0.1:${port}` } },
  })
  if (!start) return
  const first = await start()
  await until(
    () => confirmed,
    (count) => count > 0,
  ) // it has read the feed
  await until(first.wholesale, ({ incomplete }) => incomplete === undefined) // and it has looked at the provider
  await first.close() // all that it knows is saved: no turn moves from now on while its work is half done
  isAway = true
  const introduced = introductions
  const replicas = await Promise.all([start(), start(), start()])
  for (const { wholesale } of replicas) {
    // What was found of the provider is known to all: nobody can look again.
    const answer = await until(wholesale, ({ incomplete }) => incomplete === undefined)
    t.equal(answer.pagination.total_count, COUNT, 'nobody vouches for the signals of the other')
  }
  t.equal(introductions, introduced, 'who came later took what was there')

  const at = (turn: number) => replicas[turn % replicas.length] as Running
  const page = (turn: number, cursor?: string) =>
    at(turn).wholesale({ pagination: { max_results: 100, ...(cursor && { cursor }) } })
  const seenAt = (turn: number, of: string) =>
    until(
      () => page(turn),
      ({ signals }) => signals[0].name.endsWith(of),
    )

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

  for (const [turn, next] of ['v1', 'v2'].entries()) {
    t.same(
      await walk(turn, async () => {
        publish(next)
        for (const other of [1, 2]) await seenAt(turn + other, next)
      }),
      { torn: false, feed: `v${turn}` },
      'replaced everywhere, where nobody walked in it either',
    )
  }
  const seen = await Promise.all([0, 1, 2].map((turn) => seenAt(turn, 'v2')))
  t.equal(new Set(seen.map((answer) => answer.wholesale_feed_version)).size, 1)

  publish('v4')
  const torn = []
  for (let turn = 0; turn < 4; turn += 1) torn.push((await walk(turn)).torn)
  t.notOk(torn.includes(true), 'while replicas take up what is new')
  await Promise.all([0, 1, 2].map((turn) => seenAt(turn, 'v4')))

  const { pagination } = await page(0)
  await at(0).close()
  publish('x')
  for (const left of [1, 2]) await seenAt(left, 'x')
  replicas[0] = await start()
  const second = await page(0, pagination.cursor)
  t.equal(second.signals[0].name.split(' ').at(-1), 'v4', 'at one that began after it was replaced')
  // A spot check, which names no version, may be the first to meet a change; then nobody asks about it.
  const changes = 4
  t.ok(readings.length < 2 * changes, `one of them read each: ${readings}`)
})

test('rows that a restored backup lacks are read at once, whenever it says that they are due', {
  skip: NO_POSTGRES,
}, async (t) => {
  const { url, close } = await startMcpAgent(wholesaleAgent(rows('v1'), 'v1').handle)
  t.teardown(close)
  const storage = await shared(t)
  const start = await replicasOver(t, [{ id: 'a', url, protocol: 'mcp' }], {
    storage: { url: storage?.url, key: 'a storage key of the tests, long enough' },
    defaults: { refresh: '1h' },
  })
  if (!start || !storage) return
  await (await start()).close()
  const database = new pg.Client({ connectionString: storage.url })
  await database.connect()
  await database.query('delete from manifests')
  await database.query('delete from pieces')
  await database.end()
  const restored = await (await start()).wholesale()
  t.equal(restored.pagination?.total_count, COUNT)
  t.notOk(restored.incomplete, 'nothing is missing')
})
