/**
 * The servers of `serving-world.ts`, freshly started, and who asks them: each side in turn, round after round, so that other work
 * on the machine meets all alike.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import { ours } from './ours.js'
import { type Ask, CONNECTIONS, type Cost, cpuOf, headersOf, type Load, measure } from './serving-load.js'
import { overMcp, PAGE } from './serving-questions.js'

const PAGES = 400 // of the whole feed
/** Times as many requests: a part of two ratios is made of four figures, and each of them meets few collections in a round. */
const OF_PAIRS = 5
/** Requests of each connection at least: in rounds of fewer, opening them is a large part of what is measured. */
const LEAST_EACH = 12
const OTHER_SIZES = [49, 48, 47, 46, 45, 44, 43, 42, 41]
const COMPILED = 10_000 // requests: after 3,000 the engine is still compiling what answers them, more of ours than of the others
const WARM_AGAIN = 6_000 // requests of another kind to a server that has answered so many: its code is another in part, the others' is not
const WARMING = 1_200 // requests: fewer leave code that is not compiled yet, and few pages match a destination

/** What each side costs in one round. */
export type Round = Record<'bare' | 'least' | 'ours', Cost>
/** Ours, as a part of `urls`, and what it is asked. */
export type Aim = { url: string; load: Load }
/** The same question over both protocols. */
export type Pair = Record<'a2a' | 'mcp', Aim>

type Urls = Record<'bare' | 'least' | 'gathering' | 'lean' | 'full', string>
type Structured = { wholesale_feed_version: string; signals?: unknown[]; pagination?: { cursor?: string } }

const EACH = ['bare', 'least', 'ours'] as const

async function post(url: string, load: Load, ask: Ask): Promise<Buffer> {
  const reply = await request(url, { method: 'POST', headers: headersOf(load, ask), body: ask.body })
  const bytes = Buffer.from(await reply.body.arrayBuffer())
  if (reply.statusCode !== 200) throw new Error(`${url}: ${reply.statusCode} ${bytes.subarray(0, 500)}`)
  return bytes
}

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
export async function inRounds<Who extends string, Value>(
  all: readonly Who[],
  rounds: number,
  give: (who: Who) => Promise<Value>,
): Promise<Record<Who, Value>[]> {
  const found: Record<Who, Value>[] = []
  for (let round = 0; round < rounds; round += 1)
    found.push(await eachOf(round % 2 === 0 ? all : all.toReversed(), give))
  return found
}

/** The CPU of ours and of those beside it; end it with `stop`. `requests`: so many a round. */
export async function startServers(requests: number) {
  const server = ours(
    fork(fileURLToPath(new URL('./serving-world.js', import.meta.url)), [], {
      execArgv: ['--expose-gc'],
    }),
  )
  const [{ urls }] = (await once(server, 'message')) as [{ urls: Urls }]
  const cpu = cpuOf(server)
  const compiled = new Set<string>()

  async function told(message: 'change' | 'collect'): Promise<void> {
    server.send(message)
    await once(server, 'message')
  }

  async function answered(input: object, token?: string): Promise<Structured> {
    const bytes = await post(`${urls.lean}/mcp`, { asks: [] }, { body: overMcp(input), token })
    return (JSON.parse(bytes.toString()) as { result: { structuredContent: Structured } }).result
      .structuredContent
  }

  /** The questions of a walk, each with the cursor of the page before it. `seen`: how the walk itself asks. */
  async function walk(selection: object, pages: number, token?: string, seen = selection): Promise<Ask[]> {
    const found: Ask[] = []
    let cursor: string | undefined
    do {
      const pagination = { max_results: 50, ...(cursor && { cursor }) }
      found.push({ body: overMcp({ ...PAGE, ...selection, pagination }), token })
      cursor = (await answered({ ...PAGE, ...seen, pagination }, token)).pagination?.cursor
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

  /** Asks so often that the engine has compiled what answers; `part`: as much less as each request costs more. */
  async function warm(micros: typeof cpu, url: string, load: Load, part = 1): Promise<void> {
    await measure(micros, url, load, (compiled.has(url) ? WARM_AGAIN : COMPILED) / part)
    compiled.add(url)
  }

  const whereOf = (url: string): Record<keyof Round, string> => ({
    bare: `${urls.bare}/bare`,
    least: `${urls.least}/`,
    ours: url,
  })

  async function prepare({ url, load }: Aim): Promise<void> {
    await teach(url, load)
    for (const each of Object.values(whereOf(url))) await warm(cpu, each, load)
  }

  const costAt = ({ url, load }: Aim, times = 1) => {
    const where = whereOf(url)
    const most = Math.max(requests * times, LEAST_EACH * (load.connections ?? CONNECTIONS))
    return (who: keyof Round) => measure(cpu, where[who], load, most)
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

  return {
    ...{ urls, cpu, answered, walk, teach, warm },
    /** Leaves no garbage behind for whoever is measured next. */
    collect: () => told('collect'),
    /** The same question again and again, or a walk that goes on. */
    async compare(aim: Aim, rounds: number): Promise<Round[]> {
      await prepare(aim)
      return inRounds(EACH, rounds, costAt(aim))
    },
    /** Two questions in the same rounds, each beside those that send its own bytes. */
    async comparePair(pair: Pair, rounds: number): Promise<Record<keyof Pair, Round>[]> {
      for (const aim of Object.values(pair)) await prepare(aim)
      return inRounds(['a2a', 'mcp'] as const, rounds, async (which) => {
        const aim = pair[which]
        await teach(aim.url, aim.load)
        return await eachOf(EACH, costAt(aim, OF_PAIRS))
      })
    },
    /**
     * Every page of the feed, each asked for once after a price has moved. The cursors come from a walk with other fields. `lay`:
     * where the least server finds its rows and keys (serving-others.ts); undefined: rows are shown as they are.
     */
    async compareFirst(
      selection: object,
      token: string,
      lay: string | undefined,
      rounds: number,
    ): Promise<Round[]> {
      const url = `${urls.lean}/mcp`
      const found: Round[] = []
      for (let round = 0; round <= rounds; round += 1) {
        await told('change')
        const asks = await walk(selection, PAGES, token, { ...selection, fields: ['name'] })
        const ours = await onceEach(url, asks)
        await teach(url, { asks }, lay)
        const bare = await onceEach(`${urls.bare}/bare`, asks)
        const least = await onceEach(`${lay === undefined ? urls.least : urls.gathering}/`, asks)
        if (round > 0) found.push({ bare, least, ours }) // the first one warms the code
      }
      return found
    },
    stop(): void {
      server.kill()
    },
  }
}

export type Servers = Awaited<ReturnType<typeof startServers>>
