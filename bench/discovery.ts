/**
 * Brief fan-out: 50 upstreams over real sockets, 5 of which hang. Bar: the answer leaves by its deadline plus 20 ms,
 * and without hung upstreams as soon as the slowest has spoken; and nobody else waits longer than 50 ms while what they
 * found is put in order (docs/performance.md). Run: node dist/bench/discovery.js
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { createAnswerPages } from '../src/briefs/answer-pages.js'
import { createBrief } from '../src/briefs/brief.js'
import { readSynonyms } from '../src/briefs/briefs.js'
import { createDiscover } from '../src/briefs/discover.js'
import { createKept } from '../src/briefs/kept.js'
import { createLocal } from '../src/briefs/local.js'
import { createRanking } from '../src/briefs/rank.js'
import { createStanding } from '../src/briefs/standing.js'
import { createFeed } from '../src/feed/feed.js'
import { systemClock } from '../src/net/clock.js'
import { createEgress } from '../src/net/egress.js'
import { createSearchHost } from '../src/search/search-host.js'
import { compileSynonyms } from '../src/search/synonyms.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { asAsked } from '../src/upstreams/asker.js'
import { createFanout } from '../src/upstreams/fanout.js'
import { NO_ROWS, readRows } from '../src/upstreams/rows/read-rows.js'
import { createUpstreams } from '../src/upstreams/upstreams.js'
import { judgeThat, sliceOf } from '../test/feed/world.js'
import { briefListing, FEED_SIGNALS } from './discovery-agents-rows.js'
import { ours } from './ours.js'
import { report } from './report.js'

const UPSTREAMS = 50
const HUNG = 5
const SLOWEST_MS = 400
const QUESTIONS = 40
const MOST_ROWS = 100 // of one answer that are used
const ROUNDS = 3

const AGENTS = fileURLToPath(new URL('./discovery-agents.js', import.meta.url))

const agents = ours(
  spawn(process.execPath, [AGENTS, String(UPSTREAMS), String(HUNG), String(SLOWEST_MS)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  }),
)
const [line] = (await once(agents.stdout, 'data')) as [Buffer]
const urls = JSON.parse(line.toString()) as string[]
const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
const upstreams = createUpstreams({
  config: {
    registries: [],
    statics: urls.map((url, n) => ({
      ...{ id: `agent${n}`, protocol: 'mcp' as const, seeds: [], exclude: false },
      url,
      auth: { type: 'none' as const },
    })),
    policy: {},
    account: { brand: { domain: 'tributary.example' }, operator: 'tributary.example' },
    defaults: {
      ...{
        timeoutMs: 60_000,
        refreshMs: 600_000,
        staleAfterMs: 3_600_000,
        dropAfterMs: 86_400_000,
        walkMs: 3_600_000,
      },
      ...{ concurrency: 4, pageSize: 100 },
    },
  },
  ...{
    send: egress.send,
    clock: systemClock,
    random: Math.random,
    referencesFor: () => [],
    onTrouble: () => {},
  },
  blobs: { read: async () => undefined, write: async () => {}, remove: async () => {}, list: async () => [] },
})
await upstreams.start()
const judge = judgeThat({})
const feed = createFeed({ cursorSecret: 'bench', retain: { ms: 1, bytes: 2 ** 30 } })
const snapshot = buildSnapshot({
  slices: [
    sliceOf(
      'mirror',
      Array.from({ length: FEED_SIGNALS }, (_, at) => briefListing(at)),
    ),
  ],
  judge,
})
feed.publish(snapshot, Date.now())
const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))
const search = createSearchHost(synonyms)
const ranking = createRanking({ local: createLocal({ search, synonyms }), synonyms, rates: () => undefined })
await search.publish(snapshot)

/** One question at a time, each another: nothing is shared. `asked` restricts whom the question goes to. */
async function measure(name: string, seconds: number, isAsked: (n: number) => boolean): Promise<number> {
  const fanout = createFanout({ call: asAsked(upstreams.ask), clock: systemClock })
  const statuses = urls.flatMap((url, n) =>
    isAsked(n)
      ? [
          {
            ...{ id: `agent${n}`, name: `agent${n}`, listings: 0, dropped: {}, state: 'fresh' as const },
            url,
            agentUrl: url,
          },
        ]
      : [],
  )
  const whom = {
    upstreams: { statuses: () => statuses, roster: () => ({ entries: [] }) },
    access: () => ({ scope: 'public' }),
  }
  const standing = createStanding({ ...whom, judge: () => judge })
  const brief = createBrief({ feed, ranking, fanout, standing, ...whom, clock: systemClock })
  const pages = createAnswerPages({
    asWhom: () => [],
    ...{ feed, kept: createKept({ clock: systemClock, secret: 'of the bench', onTrouble: () => {} }) },
    ...{ standing, upstreams: whom.upstreams, rowsOf: async () => [] },
  })
  const { discover } = createDiscover({
    brief,
    pages,
    learn: async () => {}, // what is written later is no part of an answer's time
    searchable: async () => true,
    lacks: () => [],
    later: { refusal: async () => undefined, submit: async () => 'task' },
  })
  const took: number[] = []
  for (let n = 0; n < (seconds > 1 ? 3 : QUESTIONS); n += 1) {
    const now = Date.now()
    const started = performance.now()
    const signal_spec = `electric vehicle intenders, question ${name} ${n}`
    await discover(
      { signal_spec, time_budget: { interval: seconds, unit: 'seconds' } },
      { caller: 'bench', visibility: 'full', grants: [] },
      { now, deadline: now + 130_000, signal: AbortSignal.timeout(130_000), contextId: 'ctx' },
    )
    took.push(performance.now() - started)
  }
  fanout.close()
  took.sort((one, other) => one - other)
  const worst = took.at(-1) ?? 0
  const median = took[took.length >> 1] ?? 0
  console.log(
    `${name.padEnd(28)} budget ${seconds} s: median ${median.toFixed(0)} ms, worst ${worst.toFixed(0)} ms`,
  )
  return worst - seconds * 1_000
}

/** How late a timer of that length fires here, at worst, where nothing else is to be done. */
async function timerLateness(seconds: number): Promise<number> {
  const late: number[] = []
  for (let run = 0; run < 3; run += 1) {
    const due = performance.now() + seconds * 1_000
    await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
    late.push(performance.now() - due)
  }
  return Math.max(...late)
}

/**
 * The longest time between two turns of this thread while a question is put in order that many agents have answered with
 * the largest pages, rows that the feed lacks, ms.
 */
async function longestStop(agents: number, deployments: number): Promise<number> {
  const row = (id: string, at: number) =>
    JSON.stringify({
      ...briefListing(at),
      signal_ref: { scope: 'signal_source', signal_source_url: 'https://many.example/mcp', signal_id: id },
      signal_agent_segment_id: id,
      deployments: Array.from({ length: deployments }, (_, one) => ({
        ...{ type: 'platform', platform: `platform ${one} ${'x'.repeat(120)}`, is_live: one % 2 === 0 },
      })),
    })
  const answers = Array.from({ length: agents }, (_, agent) =>
    readRows(Array.from({ length: MOST_ROWS }, (_, at) => Buffer.from(row(`s${agent}_${at}`, at)))),
  )
  const statuses = answers.map((_, n) => {
    const url = `https://many${n}.example/mcp`
    return {
      ...{ id: `${n}`, name: `${n}`, url, agentUrl: url, listings: 0, dropped: {} },
      state: 'fresh' as const,
    }
  })
  let longest = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    const fanout = createFanout({
      clock: systemClock,
      call: async (id) => ({
        kind: 'answer',
        payload: { status: 'completed' },
        rows: answers[Number(id)] ?? NO_ROWS,
      }),
    })
    const whom = {
      upstreams: { statuses: () => statuses, roster: () => ({ entries: [] }) },
      access: () => ({ scope: 'public' }),
    }
    const standing = createStanding({ ...whom, judge: () => judge })
    const brief = createBrief({ feed, ranking, fanout, standing, ...whom, clock: systemClock })
    const until = Date.now() + 60_000
    const reader = { caller: 'bench', visibility: 'full', grants: [] } as const
    let last = performance.now()
    let goesOn = true
    const turn = () => {
      const now = performance.now()
      longest = Math.max(longest, now - last)
      last = now
      if (goesOn) setImmediate(turn)
    }
    setImmediate(turn)
    const inquiry = brief.ask(
      { signal_spec: `electric vehicle intenders below $3, question ${round}` },
      reader,
      until,
    )
    await inquiry.settled(until)
    await inquiry.rank()
    goesOn = false
    fanout.close()
  }
  return longest
}

for (const [agents, deployments, name] of [
  [UPSTREAMS, 1, `of ${UPSTREAMS} agents are merged`],
  [3, 1_000, 'with rows of a thousand deployments are merged'],
] as const) {
  report({
    what: `longest stop of the serving thread while a brief's findings ${name}`,
    ...{ measured: await longestStop(agents, deployments), unit: 'ms', bar: { atMost: 50 } },
  })
}
await measure('mirror only', 1, () => false)
await measure(`${UPSTREAMS - HUNG} that answer`, 1, (n) => n >= HUNG)
for (const seconds of [1, 3]) {
  const measured = await measure(`${UPSTREAMS}, ${HUNG} of them hung`, seconds, () => true)
  report({
    what: `a brief to ${UPSTREAMS} upstreams, ${HUNG} hung, in ${seconds} s: the worst answer after its deadline`,
    ...{ measured, unit: 'ms', bar: { atMost: 20 } },
    limit: { is: await timerLateness(seconds), of: 'a timer of that length with nothing else to do' },
  })
}
await search.close()
await upstreams.close()
await egress.close()
agents.kill()
