import { hash } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { type Test, test } from 'tap'
import { type Answer, BUYER, startWorld, type World } from '../support/federation.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'

type Row = Record<string, unknown>

const DV360 = { type: 'platform', platform: 'dv360' }
const BUYER_SHA256 = hash('sha256', BUYER, 'hex')

function own(at: number, more: Row = {}): Row {
  return {
    signal_ref: {
      scope: 'signal_source',
      signal_source_url: 'https://scripted.example/mcp',
      signal_id: `s${at}`,
    },
    signal_agent_segment_id: `segment_${at}`,
    name: `Signal ${at}`,
    description: 'Shoppers who compared models',
    signal_type: 'marketplace',
    deployments: [{ type: 'platform', platform: 'dv360', is_live: true }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 2 + at, currency: 'USD' }],
    ...more,
  }
}

const many = (count: number, more: Row = {}) => Array.from({ length: count }, (_, at) => own(at, more))

/** An agent that says what the test wants, in pages of which some are empty, and a server that federates it alone. */
async function scripted(t: Test, initial: readonly Row[]) {
  const state = {
    rows: initial,
    incomplete: undefined as object[] | undefined,
    emptyPages: 0,
    reads: 0,
    /** Readings after so many wait. */
    held: undefined as { after: number; until: Promise<unknown> } | undefined,
  }
  const agent = await startMcpAgent(async (task, args) => {
    if (task === 'get_adcp_capabilities') return CAPABILITIES
    if (task !== 'get_signals') return undefined
    const { cursor = '0' } = args.pagination as { cursor?: string }
    const page = Number(cursor)
    if (page === 0) state.reads += 1
    if (state.held && state.reads > state.held.after) await state.held.until
    const last = page === state.emptyPages
    return {
      status: 'completed',
      cache_scope: 'public',
      signals: last ? state.rows : [],
      pagination: { has_more: !last, ...(!last && { cursor: `${page + 1}` }) },
      ...(state.incomplete && { incomplete: state.incomplete }),
    }
  })
  t.teardown(agent.close)
  const world = await startWorld({
    signals: 40,
    config: () => ({
      registries: [],
      upstreams: [{ id: 'scripted', url: agent.url }],
      egress: { allow_networks: ['127.0.0.0/8'] },
      defaults: { refresh: '1s', timeout: '60s' },
      callers: {
        keys: [{ id: 'demo-buyer', token_sha256: BUYER_SHA256, destinations: [DV360] }],
      },
    }),
  })
  t.teardown(() => world.close())
  return { state, world }
}

async function eventually(world: World, holds: (answer: Answer) => boolean): Promise<Answer> {
  for (const end = Date.now() + 60_000; ; ) {
    const answer = await world.wholesale()
    if (holds(answer)) return answer
    if (Date.now() > end) throw new Error(`never happened; the last answer: ${JSON.stringify(answer)}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

const named = (scope: string, words: RegExp) => (answer: Answer) =>
  answer.incomplete?.some((entry) => entry.scope === scope && words.test(entry.description)) ?? false
const cpms = ({ signals = [] }: Answer) =>
  signals.map(({ pricing_options: [option] = [] }) => (option as { cpm?: number } | undefined)?.cpm).sort()

test("an upstream's pricing outage takes no price away, moves no version, and is named, after a restart too", async (t) => {
  const { state, world } = await scripted(t, many(3))
  const before = await eventually(world, ({ incomplete }) => incomplete === undefined)
  t.same(cpms(before), [2, 3, 4])
  state.rows = many(3, { pricing_options: undefined })
  state.incomplete = [{ scope: 'pricing', description: 'the rate card is away' }]
  const during = await eventually(world, named('pricing', /scripted cannot give its prices/))
  t.same(cpms(during), [2, 3, 4])
  t.equal(during.wholesale_feed_version, before.wholesale_feed_version)
  t.equal(during.pricing_version, before.pricing_version)
  await world.restart()
  const restarted = await eventually(world, named('pricing', /scripted cannot give its prices/))
  t.same(cpms(restarted), [2, 3, 4])
  state.rows = many(3)
  state.incomplete = undefined
  const after = await eventually(world, ({ incomplete }) => incomplete === undefined)
  t.equal(after.pricing_version, before.pricing_version)
})

test('an upstream that answers nothing, or little, loses its rows when it says so twice', async (t) => {
  const { state, world } = await scripted(t, many(40))
  const before = await eventually(world, ({ incomplete }) => incomplete === undefined)
  const seen = new EventEmitter()
  state.held = { after: state.reads + 1, until: once(seen, 'first') } // what it says once stays until it was looked at
  state.rows = []
  const first = await eventually(world, ({ incomplete }) => incomplete !== undefined)
  t.match(first.incomplete, [{ description: /scripted is stale: most of its signals are gone/ }])
  t.equal(first.pagination?.total_count, 40)
  t.equal(first.wholesale_feed_version, before.wholesale_feed_version)
  seen.emit('first')
  const after = await eventually(world, ({ pagination }) => pagination?.total_count === 0)
  t.equal(after.incomplete, undefined)
})

test('a feed whose first pages are empty is read to its end', async (t) => {
  const { state, world } = await scripted(t, many(3))
  await eventually(world, ({ pagination }) => pagination?.total_count === 3)
  state.emptyPages = 12
  state.rows = many(4)
  t.equal((await eventually(world, ({ pagination }) => pagination?.total_count === 4)).incomplete, undefined)
})

test('a walk finishes although the prices change at every refresh', async (t) => {
  const { state, world } = await scripted(t, many(60))
  const first = await eventually(world, ({ pagination }) => pagination?.total_count === 60)
  let { pricing_version: version } = first
  for (let change = 1; change <= 3; change += 1) {
    state.rows = [
      own(0, {
        pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 90 + change, currency: 'USD' }],
      }),
      ...many(60).slice(1),
    ]
    version = (await eventually(world, ({ pricing_version }) => pricing_version !== version)).pricing_version
  }
  const last = await world.wholesale({ pagination: { cursor: first.pagination?.cursor } })
  t.equal(last.pricing_version, first.pricing_version)
  t.equal(last.signals?.length, 10)
})

test('the key of a live offer is given although another live offer for the destination has none', async (t) => {
  const key = { type: 'segment_id', segment_id: 'the-key' }
  const live = { type: 'platform', platform: 'dv360', is_live: true }
  const ref = { signal_source_url: 'https://scripted.example/mcp', scope: 'signal_source', signal_id: 's' }
  const { world } = await scripted(t, [
    own(1, { signal_ref: ref, deployments: [live] }),
    own(2, { signal_ref: ref, deployments: [{ ...live, activation_key: key }] }),
  ])
  const { signals } = await eventually(world, ({ pagination }) => pagination?.total_count === 1)
  t.same(signals?.[0]?.deployments[0]?.activation_key, key)
})
