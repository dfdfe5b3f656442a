/**
 * A large feed from twenty agents whose fifty providers all say yes: read for the first time, at rest, found on disk
 * again, and then asked of both builds, which run at the same time and are loaded in turns.
 */
import { startAgents } from '../agents.js'
import { startProviders } from '../providers.js'
import { middle } from '../report.js'
import type { Ask, Load } from '../serving-load.js'
import {
  type Bench,
  callersOf,
  compareLoads,
  isWhole,
  PAGE,
  TOKENS,
  TRADE_DESK,
  watchStops,
} from './bench.js'
import { inTurns, SIDES, type Side } from './ledger.js'
import { end, prepare, type Running, toolCall, until } from './program.js'

const AGENTS = 20
const WALKED = 250 // pages of a round that nobody asked for before
const QUESTIONS = 30 // filters of a round that nobody asked before
const TURNS = 5
const A2A = { 'a2a-version': '1.0' }
const token = TOKENS.bench

type Both = Record<Side, Running>

const skill = (input: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
    params: {
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: 'get_signals', input } }] },
    },
  })

const FIELDS = { fields: ['name', 'description', 'pricing_options', 'value_type', 'data_sources'] }
const DESTINATION = { destinations: [TRADE_DESK] }
const COUNTRIES = { countries: ['DE'] }
const SELECTIONS: [what: string, selection: object][] = [
  ['as it stands', {}],
  ['fields', FIELDS],
  ['a destination', DESTINATION],
  ['countries', COUNTRIES],
  ['all of these', { ...FIELDS, ...DESTINATION, ...COUNTRIES }],
]

/** The next pages of a walk, whose cursors are had by walking it with another field. */
function walker(running: Running, selection: object): () => Promise<Ask[]> {
  let cursor: string | undefined
  return async () => {
    const asks: Ask[] = []
    while (asks.length < WALKED) {
      const pagination = { ...PAGE.pagination, ...(cursor && { cursor }) }
      asks.push({ body: toolCall('get_signals', { ...PAGE, ...selection, pagination }), token })
      const answer = await running.ask({ ...PAGE, ...selection, fields: ['name'], pagination }, token)
      cursor = answer.pagination?.cursor
    }
    return asks
  }
}

async function comparePages(bench: Bench, both: Both): Promise<void> {
  const versions = new Map<Side, string | undefined>()
  for (const side of SIDES) versions.set(side, (await both[side].ask(PAGE, token)).wholesale_feed_version)
  const loads: [what: string, path: string, args: (side: Side) => object, by?: string][] = [
    [
      '`unchanged`, MCP',
      'mcp',
      (side) => ({ ...PAGE, if_wholesale_feed_version: versions.get(side) }),
      token,
    ],
    [
      '`unchanged`, A2A',
      'a2a',
      (side) => ({ ...PAGE, if_wholesale_feed_version: versions.get(side) }),
      token,
    ],
    ['page of 50, A2A', 'a2a', () => PAGE, token],
    ['page of 50, anonymous', 'mcp', () => PAGE],
    ...SELECTIONS.map(([what, selection]): (typeof loads)[number] => [
      `page of 50 again, ${what}`,
      'mcp',
      () => ({ ...PAGE, ...selection }),
      token,
    ]),
  ]
  for (const [what, path, args, by] of loads) {
    await compareLoads(bench, what, async (side) => {
      const body = path === 'a2a' ? skill(args(side)) : toolCall('get_signals', args(side))
      const load: Load = { asks: [{ body, token: by }], ...(path === 'a2a' && { headers: A2A }) }
      return { url: `${both[side].url}/${path}`, load, running: both[side] }
    })
  }
  for (const [what, selection] of SELECTIONS) {
    const next = { before: walker(both.before, selection), after: walker(both.after, selection) }
    await compareLoads(bench, `page of 50 for the first time, ${what}`, async (side) => ({
      ...{ url: `${both[side].url}/mcp`, running: both[side] },
      load: { asks: await next[side]() },
    }))
  }
}

async function compareFilters({ ledger, signals }: Bench, both: Both): Promise<void> {
  await inTurns(TURNS + 1, async (side, round) => {
    const took: number[] = []
    const cpu = both[side].threadMicros()
    for (let at = 0; at < QUESTIONS; at += 1) {
      const filters = { max_cpm: 4 + (round * QUESTIONS + at) / 1_000, min_coverage_percentage: 20 + at }
      const since = performance.now()
      await both[side].ask({ ...PAGE, filters }, token)
      took.push(performance.now() - since)
    }
    if (round === 0) return
    const what = `a filter over ${signals} signals that nobody asked before`
    ledger.note(side, `${what}: CPU`, 'ms', (both[side].threadMicros() - cpu) / 1_000 / QUESTIONS)
    ledger.note(side, `${what}: answer`, 'ms', middle(took))
  })
}

type Walked = { beganAt: number; endedAt: number }

async function compareChanges({ ledger }: Bench, both: Both, agents: Record<Side, string>): Promise<void> {
  await inTurns(TURNS, async (side) => {
    const { pricing_version: version } = await both[side].ask(PAGE, token)
    const ended = watchStops(both[side].url)
    await fetch(new URL('/change', agents[side]), { method: 'POST' })
    await until(async () => (await both[side].ask(PAGE, token)).pricing_version !== version, 'a new price')
    const now = Date.now()
    const stop = await ended()
    const walked = (await (await fetch(new URL('/walked', agents[side]))).json()) as Walked
    ledger.note(side, 'one price changed: from the first page of its upstream', 'ms', now - walked.beganAt)
    ledger.note(side, 'one price changed: from the last page', 'ms', now - walked.endedAt)
    ledger.note(side, 'one price changed: longest wait of a client meanwhile', 'ms', stop)
    await both[side].quiet()
  })
}

type Config = { upstreams: object[]; egress: object }

async function compareReloads(
  { ledger, signals, rounds }: Bench,
  both: Both,
  configs: Record<Side, Config>,
): Promise<void> {
  await inTurns(rounds, async (side) => {
    const config = configs[side]
    const ended = watchStops(both[side].url)
    const less = signals - signals / AGENTS
    const since = performance.now()
    await both[side].rewrite({
      ...config,
      upstreams: config.upstreams.slice(1),
      authorization: { policy: 'observe' },
    })
    await until(() => isWhole(both[side], less), 'a feed without an upstream')
    const what = 'reload without an upstream and with another policy'
    ledger.note(side, `${what}, to served`, 's', (performance.now() - since) / 1_000)
    await both[side].quiet()
    ledger.note(side, `${what}: longest wait of a client`, 'ms', await ended())
    await both[side].rewrite(config)
    await until(() => isWhole(both[side], signals), 'the whole feed')
    await both[side].quiet()
  })
}

/** All rows of the large feed. */
export async function compareFeed(bench: Bench): Promise<void> {
  const { ledger, programs, rounds, signals } = bench
  const rows = signals / AGENTS
  const agents = { before: await startAgents(AGENTS, rows), after: await startAgents(AGENTS, rows) }
  const urls = SIDES.flatMap((side) => agents[side].urls)
  const { server, hosts } = await startProviders(urls, rows, AGENTS)
  const configOf = (side: Side) => ({
    upstreams: agents[side].urls.map((url, at) => ({ id: `agent-${at}`, url, protocol: 'mcp' })),
    ...{ defaults: { refresh: '2s' }, callers: callersOf() },
    egress: { allow_networks: ['127.0.0.0/8'], hosts },
  })
  const configs = { before: configOf('before'), after: configOf('after') }
  const both: Partial<Both> = {}
  const places: Awaited<ReturnType<typeof prepare>>[] = []
  await inTurns(rounds, async (side, round) => {
    const place = await prepare(programs[side], configs[side])
    const cold = await place.start()
    await until(() => isWhole(cold, signals), 'the whole feed')
    ledger.note(
      side,
      `cold mirror of ${signals} signals from ${AGENTS} agents, to served`,
      's',
      cold.seconds(),
    )
    ledger.note(side, 'cold mirror: CPU', 's', cold.cpuMs() / 1_000)
    await cold.quiet()
    ledger.note(side, 'cold mirror, until nothing is left to do: CPU', 's', cold.cpuMs() / 1_000)
    ledger.note(side, `memory with ${signals} signals, at rest`, 'MB', cold.residentMb())
    await cold.stop()
    const again = await place.start()
    await until(() => isWhole(again, signals), 'the feed from the disk')
    ledger.note(side, `restart with ${signals} signals on disk, to served`, 's', again.seconds())
    ledger.note(side, 'restart: CPU', 's', again.cpuMs() / 1_000)
    await again.quiet()
    ledger.note(side, 'memory after a restart, at rest', 'MB', again.residentMb())
    if (round === rounds - 1) {
      both[side] = again
      places.push(place)
      return
    }
    await again.stop()
    await place.remove()
  })
  const running = both as Both
  await comparePages(bench, running)
  await compareFilters(bench, running)
  const [before = '', after = ''] = SIDES.map((side) => agents[side].urls[0])
  await compareChanges(bench, running, { before, after })
  await compareReloads(bench, running, configs)
  for (const side of SIDES) {
    await running[side].stop()
    await end(agents[side].child)
  }
  for (const place of places) await place.remove()
  server.close()
}
