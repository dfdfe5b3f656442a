/**
 * Serving (docs/performance.md): what a request costs, in CPU of the server, as a ratio to a bare Fastify route that sends
 * the same bytes, and to the least that Node can do for them. They are asked in turn, round after round, and the middle
 * ratio counts: other work on the machine meets all alike. `node dist/bench/serving.js [requests a round] [rounds]
 * [part of the rows' names]`.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { givenNumber } from '../test/support/given.js'
import { ours } from './ours.js'
import { type Bar, middle, report, rounded } from './report.js'
import { type Ask, type Cost, cpuOf, headersOf, type Load, measure } from './serving-load.js'
import { ACCOUNT, TOKENS } from './serving-options.js'

const REQUESTS = givenNumber(0, 600)
const ROUNDS = givenNumber(1, 15)
const ONLY = process.argv[4] ?? ''
const PAGES = 400 // of the whole feed
const ROUNDS_OF_FIRST = 5
const OF_PAIRS = 3 // times as many requests: a part of two ratios is made of four figures, each of which differs from round to round
const OTHER_SIZES = [49, 48, 47, 46, 45, 44, 43, 42, 41]
const COMPILED = 10_000 // requests: after 3,000 the engine is still compiling what answers them, more of ours than of the others
const WARM_AGAIN = 3_000 // requests of another kind to a server that has answered so many
const WARMING = 1_200 // requests: fewer leave code that is not compiled yet, and few pages match a destination

type Started = { urls: Record<'bare' | 'least' | 'gathering' | 'lean' | 'full', string> }
type Compared = { ratio: number; limit: number; cost: Cost; bare: Cost; least: Cost }

const server = ours(
  fork(fileURLToPath(new URL('./serving-world.js', import.meta.url)), [], {
    execArgv: ['--expose-gc'],
  }),
)
const [{ urls }] = (await once(server, 'message')) as [Started]
const cpu = cpuOf(server)

const tool = (args: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'get_signals', arguments: args },
  })
const skill = (input: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
    params: {
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: 'get_signals', input } }] },
    },
  })
const skill03 = (input: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'message/send' },
    params: {
      message: {
        ...{ kind: 'message', messageId: 'm', role: 'user' },
        parts: [{ kind: 'data', data: { skill: 'get_signals', input } }],
      },
    },
  })

async function post(url: string, load: Load, ask: Ask): Promise<Buffer> {
  const reply = await request(url, { method: 'POST', headers: headersOf(load, ask), body: ask.body })
  const bytes = Buffer.from(await reply.body.arrayBuffer())
  if (reply.statusCode !== 200) throw new Error(`${url}: ${reply.statusCode} ${bytes.subarray(0, 500)}`)
  return bytes
}

type Structured = { wholesale_feed_version: string; signals?: unknown[]; pagination?: { cursor?: string } }

async function answered(args: object, token?: string): Promise<Structured> {
  const bytes = await post(`${urls.lean}/mcp`, { asks: [] }, { body: tool(args), token })
  return (JSON.parse(bytes.toString()) as { result: { structuredContent: Structured } }).result
    .structuredContent
}

const page = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }
const FIELDS = { fields: ['name', 'description', 'pricing_options', 'value_type', 'data_sources'] }

/** The questions of a walk, each with the cursor of the page before it. `seen`: how the walk itself asks. */
async function walk(selection: object, pages: number, token?: string, seen = selection): Promise<Ask[]> {
  const found: Ask[] = []
  let cursor: string | undefined
  do {
    const pagination = { max_results: 50, ...(cursor && { cursor }) }
    found.push({ body: tool({ ...page, ...selection, pagination }), token })
    cursor = (await answered({ ...page, ...seen, pagination }, token)).pagination?.cursor
  } while (cursor && found.length < pages)
  return found
}

/** Gives the others the very bytes that ours answers with: all of them, because what a processor has seen lately is cheaper. */
async function teach(url: string, load: Load, lay = ''): Promise<void> {
  const headers = { 'content-type': 'application/octet-stream' }
  for (const [at, ask] of load.asks.entries()) {
    const body = await post(url, load, ask)
    for (const other of [urls.bare, urls.least, urls.gathering])
      await request(`${other}/bytes${at === 0 ? `?first${lay}` : ''}`, { method: 'PUT', headers, body })
  }
}

type Round = Record<'bare' | 'least' | 'ours', Cost>

function compared(rounds: readonly Round[]): Compared {
  const of = (value: (round: Round) => number) => middle(rounds.map(value))
  const each = (who: keyof Round): Cost => ({
    cpuMicros: of((round) => round[who].cpuMicros),
    rps: of((round) => round[who].rps),
    p50: of((round) => round[who].p50),
    p99: of((round) => round[who].p99),
  })
  return {
    ratio: of(({ bare, ours }) => bare.cpuMicros / ours.cpuMicros),
    limit: of(({ bare, least }) => bare.cpuMicros / least.cpuMicros),
    cost: each('ours'),
    bare: each('bare'),
    least: each('least'),
  }
}

const whereOf = (url: string): Record<keyof Round, string> => ({
  bare: `${urls.bare}/bare`,
  least: `${urls.least}/`,
  ours: url,
})

/** Of each, one after another in this order. */
async function eachOf<Who extends string, Value>(
  all: readonly Who[],
  give: (who: Who) => Promise<Value>,
): Promise<Record<Who, Value>> {
  const values = {} as Record<Who, Value>
  for (const who of all) values[who] = await give(who)
  return values
}

/** All in turn, round after round, every other one in reverse: nobody is always measured after the same other one. */
async function inRounds<Who extends string, Value>(
  all: readonly Who[],
  give: (who: Who) => Promise<Value>,
): Promise<Record<Who, Value>[]> {
  const rounds: Record<Who, Value>[] = []
  for (let round = 0; round < ROUNDS; round += 1)
    rounds.push(await eachOf(round % 2 === 0 ? all : all.toReversed(), give))
  return rounds
}

const compiled = new Set<string>()

/** Asks so often that the engine has compiled what answers; `part`: as much less as each request costs more. */
async function warm(micros: typeof cpu, url: string, load: Load, part = 1): Promise<void> {
  await measure(micros, url, load, (compiled.has(url) ? WARM_AGAIN : COMPILED) / part)
  compiled.add(url)
}

type Aim = { url: string; load: Load }

const EACH = ['bare', 'least', 'ours'] as const

async function prepare({ url, load }: Aim): Promise<void> {
  await teach(url, load)
  for (const each of Object.values(whereOf(url))) await warm(cpu, each, load)
}

const costAt = ({ url, load }: Aim, requests = REQUESTS) => {
  const where = whereOf(url)
  return (who: keyof Round) => measure(cpu, where[who], load, requests)
}

/** The same question again and again, or a walk that goes on. */
async function compare(url: string, load: Load): Promise<Compared> {
  const aim = { url, load }
  await prepare(aim)
  return compared(await inRounds(EACH, costAt(aim)))
}

/** Two questions in the same rounds, each beside those that send its own bytes: which part of MCP's ratio A2A reaches. */
async function comparePair(aims: Readonly<Record<'a2a' | 'mcp', Aim>>) {
  for (const aim of Object.values(aims)) await prepare(aim)
  const rounds = await inRounds(['a2a', 'mcp'] as const, async (which) => {
    const aim = aims[which]
    await teach(aim.url, aim.load)
    return await eachOf(EACH, costAt(aim, REQUESTS * OF_PAIRS))
  })
  const ratio = ({ bare }: Round, { cpuMicros }: Cost) => bare.cpuMicros / cpuMicros
  const part = (who: 'ours' | 'least') =>
    middle(rounds.map(({ a2a, mcp }) => ratio(a2a, a2a[who]) / ratio(mcp, mcp.ours)))
  const of = (which: 'a2a' | 'mcp') => compared(rounds.map((round) => round[which]))
  return { part: part('ours'), limit: part('least'), a2a: of('a2a'), mcp: of('mcp') }
}

async function told(message: 'change' | 'collect'): Promise<void> {
  server.send(message)
  await once(server, 'message')
}

/**
 * Each page once, by a server without garbage whose code is warm: a collection also drops compiled code, so pages of other
 * sizes, which have other bytes, come first, as many whatever the number of pages.
 */
async function onceEach(url: string, asks: readonly Ask[]): Promise<Cost> {
  await told('collect')
  const warming = OTHER_SIZES.slice(0, Math.ceil(WARMING / asks.length)).flatMap((size) =>
    asks.map((ask) => ({ ...ask, body: ask.body.replace('"max_results":50', `"max_results":${size}`) })),
  )
  await measure(cpu, url, { asks: warming }, warming.length)
  return measure(cpu, url, { asks }, asks.length)
}

/**
 * Every page of the feed, each asked for once after a price has moved. The cursors come from a walk with other fields. `lay`:
 * where the least server finds its rows and keys (serving-others.ts); undefined: rows are shown as they are.
 */
async function compareFirst(selection: object, token: string, lay: string | undefined): Promise<Compared> {
  const url = `${urls.lean}/mcp`
  const rounds: Round[] = []
  for (let round = 0; round <= ROUNDS_OF_FIRST; round += 1) {
    await told('change')
    const asks = await walk(selection, PAGES, token, { ...selection, fields: ['name'] })
    const ours = await onceEach(url, asks)
    await teach(url, { asks }, lay)
    const bare = await onceEach(`${urls.bare}/bare`, asks)
    const least = await onceEach(`${lay === undefined ? urls.least : urls.gathering}/`, asks)
    if (round > 0) rounds.push({ bare, least, ours }) // the first one warms the code
  }
  return compared(rounds)
}

const GATHERED =
  'Node alone that parses each question, signs a cursor, and copies the pieces of 50 rows from memory as large'
const LEAST = 'Node alone that parses the question, knows the caller and writes the same pieces'

function print(what: string, { ratio, limit: is, cost, bare, least }: Compared, bar: Bar, of = LEAST): void {
  report({ what, measured: ratio, bar, limit: { is, of } })
  const times = `p50 ${rounded(cost.p50)} ms, p99 ${rounded(cost.p99)} ms, ${rounded(cost.rps / bare.rps)} of its rps`
  const others = `bare ${rounded(bare.cpuMicros)}, the least that it can be ${rounded(least.cpuMicros)}`
  console.log(`    ${rounded(cost.cpuMicros)} us of CPU a request (${others}), ${times}`)
}

const atLeast = (value: number): Bar => ({ atLeast: value })
const [mcp, fullMcp, a2a, fullA2a] = [
  `${urls.lean}/mcp`,
  `${urls.full}/mcp`,
  `${urls.lean}/a2a`,
  `${urls.full}/a2a`,
]
const token = TOKENS.bench
const granted = TOKENS.granted
const { wholesale_feed_version: version } = await answered(page, token)
const unchanged = { ...page, if_wholesale_feed_version: version }
const A2A = { 'a2a-version': '1.0' }
const narrow = { filters: { catalog_types: ['marketplace'], data_providers: ['p3.example'] } }
const DESTINATION = { destinations: [{ type: 'platform', platform: 'dv360' }] }
const COUNTRIES = { countries: ['DE'] }
const every = { ...FIELDS, ...DESTINATION, ...COUNTRIES }
const account = { account: { account_id: ACCOUNT } }
const of = (selection: object, by: string | undefined = token): Load => ({
  asks: [{ body: tool({ ...page, ...selection }), token: by }],
})
const askUnchanged = (connections?: number): Load => ({
  asks: [{ body: tool(unchanged), token }],
  ...(connections && { connections }),
})
const over = (body: string, headers?: Load['headers']): Load => ({
  asks: [{ body, token }],
  ...(headers && { headers }),
})
const mixed: Load = {
  asks: [
    { body: tool(page) },
    { body: tool({ ...page, ...FIELDS }), token },
    { body: tool({ ...page, ...account }), token },
    { body: tool({ ...page, ...DESTINATION }), token: granted },
    { body: tool(unchanged), token },
  ],
}

type Asked = [what: string, url: string, load: Load | (() => Promise<Load>), bar: Bar]
const walking =
  (selection: object, pages: number, by: string = token) =>
  async (): Promise<Load> => ({
    asks: await walk(selection, pages, by),
  })

const LOADS: Asked[] = [
  ['unchanged, MCP', mcp, askUnchanged(), atLeast(0.95)],
  ['unchanged, MCP, metrics and limits', fullMcp, askUnchanged(), atLeast(0.8)],
  ['unchanged, MCP, metrics and limits, 1 connection', fullMcp, askUnchanged(1), atLeast(0.8)],
  ['unchanged, MCP, metrics and limits, 256 connections', fullMcp, askUnchanged(256), atLeast(0.8)],
  ['page of 50, MCP', mcp, of({}), atLeast(0.95)],
  ['page of 50, MCP, metrics and limits', fullMcp, of({}), atLeast(0.8)],
  ['page of 50, MCP, 1 connection', mcp, { ...of({}), connections: 1 }, atLeast(0.95)],
  ['page of 50, MCP, 256 connections', mcp, { ...of({}), connections: 256 }, atLeast(0.95)],
  ['page of 50, MCP, gzip', mcp, { ...of({}), headers: { 'accept-encoding': 'gzip' } }, atLeast(0.6)],
  ['page of 50, anonymous', mcp, of({}, ''), atLeast(0.6)],
  ['page of 50, walking', mcp, walking({}, 300), atLeast(0.6)],
  ['page of 50, scattered by a filter', mcp, walking(narrow, 50), atLeast(0.6)],
  ['page of 50 again, fields', mcp, of(FIELDS), atLeast(0.6)],
  ['page of 50 again, a destination', mcp, of(DESTINATION), atLeast(0.6)],
  ['page of 50 again, countries', mcp, of(COUNTRIES), atLeast(0.6)],
  ["page of 50 again, the caller's keys", mcp, of({}, granted), atLeast(0.6)],
  ['page of 50 again, an account with prices of its own', mcp, of(account), atLeast(0.6)],
  ['page of 50 again, fields, destination, countries and keys', mcp, of(every, granted), atLeast(0.6)],
  ['page of 50 again, all of these, walking', mcp, walking(every, 100, granted), atLeast(0.6)],
  ['anonymous, keyed, granted and account callers, mixed', mcp, mixed, atLeast(0.6)],
]

await told('collect') // whoever is measured first would pay for what making the feed left behind
for (const [what, url, load, bar] of LOADS) {
  if (!what.includes(ONLY)) continue
  print(what, await compare(url, typeof load === 'function' ? await load() : load), bar)
}

const FIRST: [what: string, selection: object, token: string, lay?: string][] = [
  ['as it stands', {}, token],
  ['fields', FIELDS, token, '&step=1'],
  ['a destination', DESTINATION, token, '&step=3'],
  ['countries', COUNTRIES, token],
  ["the caller's keys", {}, granted, '&step=1&keys=17'],
  ['all of these', every, granted, '&step=3&keys=50'],
]
for (const [what, selection, by, lay] of FIRST) {
  const name = `page of 50 for the first time, ${what}`
  if (!name.includes(ONLY)) continue
  const result = await compareFirst(selection, by, lay)
  print(name, result, atLeast(0.3), lay === undefined ? LEAST : GATHERED)
}

const { wholesale_feed_version: newest } = await answered(page, token)
const still = { ...page, if_wholesale_feed_version: newest }
const A2A_LOADS: [what: string, overA2a: Aim, overMcp: Aim][] = [
  ['unchanged, A2A 1.0', { url: a2a, load: over(skill(still), A2A) }, { url: mcp, load: over(tool(still)) }],
  ['unchanged, A2A 0.3', { url: a2a, load: over(skill03(still)) }, { url: mcp, load: over(tool(still)) }],
  ['page of 50, A2A 1.0', { url: a2a, load: over(skill(page), A2A) }, { url: mcp, load: over(tool(page)) }],
  ['page of 50, A2A 0.3', { url: a2a, load: over(skill03(page)) }, { url: mcp, load: over(tool(page)) }],
  [
    'unchanged, A2A 1.0, metrics and limits',
    { url: fullA2a, load: over(skill(still), A2A) },
    { url: fullMcp, load: over(tool(still)) },
  ],
]
for (const [what, overA2a, overMcp] of A2A_LOADS) {
  const name = `${what}, against MCP`
  if (!name.includes(ONLY)) continue
  const { part, limit: is, a2a: here, mcp: there } = await comparePair({ a2a: overA2a, mcp: overMcp })
  report({ what: name, measured: part, bar: atLeast(0.9), limit: { is, of: LEAST } })
  const words = ({ ratio, cost }: Compared) =>
    `${rounded(ratio)} of the bare route, ${rounded(cost.cpuMicros)} us`
  console.log(`    ${words(here)}; over MCP ${words(there)}`)
}

const OFFICIAL = [
  ['unchanged', still, 15],
  ['page of 50', page, 20],
] as const
const officialName = (what: string) =>
  `${what}, metrics and limits, against the official McpServer for each request`

async function compareOfficial(chosen: readonly (typeof OFFICIAL)[number][]): Promise<void> {
  const child = ours(fork(fileURLToPath(new URL('./serving-official.js', import.meta.url))))
  const { signals } = await answered(page, token)
  const status = 'completed'
  child.send({
    unchanged: { status, unchanged: true, wholesale_feed_version: newest },
    page: { status, signals },
  })
  const [{ url: official }] = (await once(child, 'message')) as [{ url: string }]
  for (const [what, args, bar] of chosen) {
    const load = over(tool(args))
    const asked = {
      official: { url: `${official}/mcp`, of: cpuOf(child), part: 5 }, // each of them takes as long as twenty of the others
      ours: { url: fullMcp, of: cpu, part: 1 },
      least: { url: `${urls.least}/`, of: cpu, part: 1 },
    }
    await teach(fullMcp, load)
    for (const { url, of, part } of Object.values(asked)) await warm(of, url, load, part)
    const rounds = await inRounds(['official', 'ours', 'least'] as const, (who) => {
      const { url, of, part } = asked[who]
      return measure(of, url, load, REQUESTS / part)
    })
    const than = (who: 'ours' | 'least') =>
      middle(rounds.map((costs) => costs.official.cpuMicros / costs[who].cpuMicros))
    report({
      what: officialName(what),
      measured: than('ours'),
      unit: 'x',
      bar: atLeast(bar),
      limit: { is: than('least'), of: LEAST },
    })
  }
  child.kill()
}

const chosen = OFFICIAL.filter(([what]) => officialName(what).includes(ONLY))
if (chosen.length > 0) await compareOfficial(chosen)
server.kill()
