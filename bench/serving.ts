/**
 * Serving (docs/performance.md): what a request costs, in CPU of the server, as a ratio to a bare Fastify route that sends
 * the same bytes, and to the least that Node can do for them. The middle ratio of all rounds counts, in three processes one after
 * the other: each process places its code and data otherwise, which moves a ratio more than one round differs from the next.
 * `node dist/bench/serving.js [requests a round] [rounds] [part of the rows' names]`.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { givenNumber } from '../test/support/given.js'
import { ours } from './ours.js'
import type { Bar } from './report.js'
import { inRounds, type Servers, startServers } from './serving-client.js'
import { cpuOf, type Load, measure } from './serving-load.js'
import { TOKENS } from './serving-options.js'
import {
  A2A_1_0,
  COUNTRIES,
  DESTINATION,
  EVERY,
  FIELDS,
  NARROW,
  OWN_PRICES,
  overA2a,
  overA2a03,
  overMcp,
  PAGE,
} from './serving-questions.js'
import { type OfOfficial, print, printOfficial, printPair } from './serving-report.js'

const REQUESTS = givenNumber(0, 600)
const ROUNDS = givenNumber(1, 15)
const ONLY = process.argv[4] ?? ''
const PROCESSES = 3
const ROUNDS_EACH = Math.ceil(ROUNDS / PROCESSES)
const HIGH = 0.9 // bars that ratios come near to: the middle of more rounds moves less from run to run
const ROUNDS_AT_HIGH = 3 * ROUNDS_EACH
const ROUNDS_OF_FIRST = 2 // each of hundreds of pages

const GATHERED =
  'Node alone that parses each question, signs a cursor, and copies the pieces of 50 rows from memory as large'
const LEAST = 'Node alone that parses the question, knows the caller and writes the same pieces'

const { bench: token, granted } = TOKENS
const atLeast = (value: number) => ({ atLeast: value }) satisfies Bar
const roundsFor = ({ atLeast }: { atLeast: number }) => (atLeast < HIGH ? ROUNDS_EACH : ROUNDS_AT_HIGH)
const of = (selection: object, by: string | undefined = token): Load => ({
  asks: [{ body: overMcp({ ...PAGE, ...selection }), token: by }],
})
const over = (body: string, headers?: Load['headers']): Load => ({
  asks: [{ body, token }],
  ...(headers && { headers }),
})
/** A question whose answer the caller has already. */
const still = async (servers: Servers) => ({
  ...PAGE,
  if_wholesale_feed_version: (await servers.answered(PAGE, token)).wholesale_feed_version,
})
const unchanged = (connections?: number) => async (servers: Servers) => ({
  ...over(overMcp(await still(servers))),
  ...(connections && { connections }),
})
const walking =
  (selection: object, pages: number, by: string = token) =>
  async (servers: Servers): Promise<Load> => ({ asks: await servers.walk(selection, pages, by) })
const mixed = async (servers: Servers): Promise<Load> => ({
  asks: [
    { body: overMcp(PAGE) },
    { body: overMcp({ ...PAGE, ...FIELDS }), token },
    { body: overMcp({ ...PAGE, ...OWN_PRICES }), token },
    { body: overMcp({ ...PAGE, ...DESTINATION }), token: granted },
    { body: overMcp(await still(servers)), token },
  ],
})

type Asked = [
  what: string,
  by: 'lean' | 'full',
  load: Load | ((servers: Servers) => Promise<Load>),
  bar: ReturnType<typeof atLeast>,
]

const LOADS: Asked[] = [
  ['unchanged, MCP', 'lean', unchanged(), atLeast(0.95)],
  ['unchanged, MCP, metrics and limits', 'full', unchanged(), atLeast(0.8)],
  ['unchanged, MCP, metrics and limits, 1 connection', 'full', unchanged(1), atLeast(0.8)],
  ['unchanged, MCP, metrics and limits, 256 connections', 'full', unchanged(256), atLeast(0.8)],
  ['page of 50, MCP', 'lean', of({}), atLeast(0.95)],
  ['page of 50, MCP, metrics and limits', 'full', of({}), atLeast(0.8)],
  ['page of 50, MCP, 1 connection', 'lean', { ...of({}), connections: 1 }, atLeast(0.95)],
  ['page of 50, MCP, 256 connections', 'lean', { ...of({}), connections: 256 }, atLeast(0.95)],
  ['page of 50, MCP, gzip', 'lean', { ...of({}), headers: { 'accept-encoding': 'gzip' } }, atLeast(0.6)],
  ['page of 50, anonymous', 'lean', of({}, ''), atLeast(0.6)],
  ['page of 50, walking', 'lean', walking({}, 300), atLeast(0.6)],
  ['page of 50, scattered by a filter', 'lean', walking(NARROW, 50), atLeast(0.6)],
  ['page of 50 again, fields', 'lean', of(FIELDS), atLeast(0.6)],
  ['page of 50 again, a destination', 'lean', of(DESTINATION), atLeast(0.6)],
  ['page of 50 again, countries', 'lean', of(COUNTRIES), atLeast(0.6)],
  ["page of 50 again, the caller's keys", 'lean', of({}, granted), atLeast(0.6)],
  ['page of 50 again, an account with prices of its own', 'lean', of(OWN_PRICES), atLeast(0.6)],
  ['page of 50 again, fields, destination, countries and keys', 'lean', of(EVERY, granted), atLeast(0.6)],
  ['page of 50 again, all of these, walking', 'lean', walking(EVERY, 100, granted), atLeast(0.6)],
  ['anonymous, keyed, granted and account callers, mixed', 'lean', mixed, atLeast(0.6)],
]

const FIRST: [what: string, selection: object, token: string, lay?: string][] = [
  ['as it stands', {}, token],
  ['fields', FIELDS, token, '&step=1'],
  ['a destination', DESTINATION, token, '&step=3'],
  ['countries', COUNTRIES, token],
  ["the caller's keys", {}, granted, '&step=1&keys=17'],
  ['all of these', EVERY, granted, '&step=3&keys=50'],
]

/** The same over A2A as over MCP. */
const PAIRS: [what: string, by: 'lean' | 'full', a2a: (input: object) => Load, isStill: boolean][] = [
  ['unchanged, A2A 1.0', 'lean', (input) => over(overA2a(input), A2A_1_0), true],
  ['unchanged, A2A 0.3', 'lean', (input) => over(overA2a03(input)), true],
  ['page of 50, A2A 1.0', 'lean', (input) => over(overA2a(input), A2A_1_0), false],
  ['page of 50, A2A 0.3', 'lean', (input) => over(overA2a03(input)), false],
  ['unchanged, A2A 1.0, metrics and limits', 'full', (input) => over(overA2a(input), A2A_1_0), true],
]

const OFFICIAL = [
  ['unchanged', 15],
  ['page of 50', 20],
] as const

async function compareOfficial(servers: Servers, input: object): Promise<OfOfficial[]> {
  const { urls, cpu, teach, warm } = servers
  const child = ours(fork(fileURLToPath(new URL('./serving-official.js', import.meta.url))))
  const { signals, wholesale_feed_version } = await servers.answered(PAGE, token)
  const status = 'completed'
  child.send({ unchanged: { status, unchanged: true, wholesale_feed_version }, page: { status, signals } })
  const [{ url: official }] = (await once(child, 'message')) as [{ url: string }]
  const load = over(overMcp(input))
  const asked = {
    official: { url: `${official}/mcp`, of: cpuOf(child), part: 5 }, // each of them takes as long as twenty of the others
    ours: { url: `${urls.full}/mcp`, of: cpu, part: 1 },
    least: { url: `${urls.least}/`, of: cpu, part: 1 },
  }
  await teach(asked.ours.url, load)
  for (const { url, of: micros, part } of Object.values(asked)) await warm(micros, url, load, part)
  const found = await inRounds(['official', 'ours', 'least'] as const, ROUNDS_EACH, (who) => {
    const { url, of: micros, part } = asked[who]
    return measure(micros, url, load, REQUESTS / part)
  })
  child.kill()
  return found
}

const processes: Servers[] = []
while (processes.length < PROCESSES) processes.push(await startServers(REQUESTS))
for (const { collect } of processes) await collect() // whoever is measured first would pay for what making the feed left behind

/** The rounds of one row in all processes. */
async function inAll<Each>(give: (servers: Servers) => Promise<readonly Each[]>): Promise<Each[]> {
  const rounds: Each[] = []
  for (const servers of processes) rounds.push(...(await give(servers)))
  return rounds
}

for (const [what, by, load, bar] of LOADS) {
  if (!what.includes(ONLY)) continue
  const rounds = await inAll(async (servers) => {
    const url = `${servers.urls[by]}/mcp`
    return servers.compare(
      { url, load: typeof load === 'function' ? await load(servers) : load },
      roundsFor(bar),
    )
  })
  print(what, rounds, bar, LEAST)
}
for (const [what, selection, by, lay] of FIRST) {
  const name = `page of 50 for the first time, ${what}`
  if (!name.includes(ONLY)) continue
  const rounds = await inAll((servers) => servers.compareFirst(selection, by, lay, ROUNDS_OF_FIRST))
  print(name, rounds, atLeast(0.3), lay === undefined ? LEAST : GATHERED)
}
for (const [what, by, a2a, isStill] of PAIRS) {
  const name = `${what}, against MCP`
  if (!name.includes(ONLY)) continue
  const rounds = await inAll(async (servers) => {
    const input = isStill ? await still(servers) : PAGE
    const pair = {
      a2a: { url: `${servers.urls[by]}/a2a`, load: a2a(input) },
      mcp: { url: `${servers.urls[by]}/mcp`, load: over(overMcp(input)) },
    }
    return servers.comparePair(pair, ROUNDS_AT_HIGH)
  })
  printPair(name, rounds, atLeast(HIGH), LEAST)
}
for (const [what, bar] of OFFICIAL) {
  const name = `${what}, metrics and limits, against the official McpServer for each request`
  if (!name.includes(ONLY)) continue
  const rounds = await inAll(async (servers) =>
    compareOfficial(servers, what === 'unchanged' ? await still(servers) : PAGE),
  )
  printOfficial(name, rounds, atLeast(bar), LEAST)
}
for (const { stop } of processes) stop()
