/**
 * Runs the benches one after the other, each in a process of its own, and then prints every row once more: `node
 * dist/bench/run.js [name ...] [--only WORDS] [--minutes N] [--json]`. `--only`: benches that measure something with these
 * words. All of them together end after N minutes (60): what does not fit is named. `--json`: the rows as JSON on standard
 * output, everything else on standard error. Ends with 1 when a bench could not be run to its end; a missed bar is a finding.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { givenOptions, numberOf, refuse } from '../test/support/given.js'
import { lineOf, type Row } from './report.js'

/**
 * What each measures, the minutes that it is given at most, and the arguments that it is run with. The short ones come first; the tests,
 * what compares them, and activations, which take both cores for minutes, last.
 */
const BENCHES: Record<string, { of: string; minutes: number; sizes?: readonly number[] }> = {
  machine: { of: 'what new memory costs here', minutes: 1 },
  authz: { of: 'verdicts a second, the heaviest adagents.json', minutes: 1 },
  search: { of: 'search, a question among 100,000 signals', minutes: 1 },
  hostile: { of: 'longest stop over hostile answers', minutes: 1 },
  'events-chain': { of: 'events through two Tributaries', minutes: 1 },
  'forged-events': { of: 'floods of forged and replayed events', minutes: 1 },
  events: { of: 'feed events to 1,000 subscribers', minutes: 3 },
  discovery: { of: 'brief fan-out to 50 upstreams, 5 hung', minutes: 2 },
  change: { of: 'one price changed, in one process, accounts', minutes: 3 },
  'while-merging': { of: 'pages served while 300,000 listings are merged', minutes: 3 },
  direct: { of: 'direct calls to 20 agents', minutes: 2 },
  upstreams: { of: 'cold mirror, unchanged polls', minutes: 3 },
  restart: { of: 'first start, restart to serve', minutes: 4 },
  feed: { of: 'merge, filter, memory, accounts, generations', minutes: 6 },
  'change-served': { of: 'one price changed, over HTTP', minutes: 3, sizes: [1_000_000] },
  replicas: { of: 'replicas: reads of upstreams, generations', minutes: 4 },
  console: { of: 'console over a million signals', minutes: 3 },
  serving: { of: 'pages and unchanged against a bare route, MCP and A2A', minutes: 14, sizes: [600, 15] },
  tests: { of: 'npm test', minutes: 5 },
  'first-release': { of: 'merging, mirroring and npm test against the first release', minutes: 16 },
  activation: { of: 'activations a second', minutes: 4, sizes: [20, 200_000] },
}
const MINUTE = 60_000
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

type Said = { row?: Row }
type Result = { name: string; rows: Row[]; seconds: number; trouble?: string }

const { values: given, positionals: asked } = givenOptions({
  allowPositionals: true,
  options: {
    only: { type: 'string', default: '' },
    minutes: { type: 'string', default: '60' },
    json: { type: 'boolean', default: false },
  },
})
const names = Object.keys(BENCHES)
const unknown = asked.filter((name) => !names.includes(name))
if (unknown.length > 0) refuse(`no bench: ${unknown.join(', ')}; there are ${names.join(', ')}`)
const words = given.only.toLowerCase()
const chosen = Object.entries(BENCHES).filter(
  ([name, { of }]) =>
    (asked.length === 0 || asked.includes(name)) && `${name} ${of}`.toLowerCase().includes(words),
)
if (chosen.length === 0) refuse(`no bench measures "${given.only}"`)
const startedAt = Date.now()
const endsAt = startedAt + MINUTE * numberOf(given.minutes, '--minutes')
const say = given.json ? console.error : console.log

/** Ends a bench and the processes that it started: they are one group. */
function stop({ pid }: ChildProcess): void {
  if (pid !== undefined) process.kill(-pid, 'SIGKILL')
}

async function run(name: string, ms: number, sizes: readonly number[]): Promise<Result> {
  const rows: Row[] = []
  const begunAt = Date.now()
  const bench = fork(fileURLToPath(new URL(`${name}.js`, import.meta.url)), sizes.map(String), {
    detached: true, // a group of its own
    stdio: ['ignore', given.json ? 2 : 1, 2, 'ipc'],
  })
  bench.on('message', ({ row }: Said) => row && rows.push(row))
  bench.send({ rows: results.flatMap((earlier) => earlier.rows) }) // for a bench that compares
  const interrupted = () => {
    stop(bench)
    process.exit(130)
  }
  for (const signal of SIGNALS) process.once(signal, interrupted)
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    stop(bench)
  }, ms)
  const [ended] = (await once(bench, 'exit')) as [number | null]
  clearTimeout(timer)
  for (const signal of SIGNALS) process.off(signal, interrupted)
  const trouble = isLate ? `was ended after ${Math.round(ms / 1_000)} s` : 'did not run to its end'
  const seconds = Math.round((Date.now() - begunAt) / 1_000)
  return { name, rows, seconds, ...(ended !== 0 && { trouble }) }
}

const results: Result[] = []
for (const [at, [name, { of, minutes, sizes = [] }]] of chosen.entries()) {
  const passed = Math.round((Date.now() - startedAt) / 1_000)
  say(`\n== ${name} (${at + 1} of ${chosen.length}, after ${passed} s): ${of}`)
  const ms = Math.min(MINUTE * minutes, endsAt - Date.now())
  results.push(
    ms > 0
      ? await run(name, ms, sizes)
      : { name, rows: [], seconds: 0, trouble: 'was not run: the time is over' },
  )
}

say(`\n== all rows, Node ${process.version}`)
for (const { name, rows, seconds, trouble } of results) {
  for (const row of rows) say(lineOf(row))
  say(`(${name} took ${seconds} s)`)
  if (trouble) say(`${name} ${trouble}`)
}
if (given.json) console.log(JSON.stringify(results, null, 2))
process.exitCode = results.every(({ trouble }) => trouble === undefined) ? 0 : 1
