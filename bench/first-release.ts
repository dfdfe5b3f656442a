/**
 * The rows with absolute bars once more, as ratios to the first release on this machine (docs/performance.md): each bar was set
 * beside what the first release had on another machine, so the ratio of the two is what it asks of any. The first release is
 * taken from the history of this checkout, built in a temporary folder, and measured by its own benches; ours is what the benches
 * before this one measured in the same run.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unpack } from '../test/support/history.js'
import { haveAtHand } from './new-memory.js'
import { type Bar, middle, type Row, report, rounded } from './report.js'
import { timeTests } from './timed-tests.js'

const FIRST = 'd4393a0e60ac27787cacd81c0ff2f6b8d68a31f4'
const ROUNDS = 3
const SIGNALS = 300_000
/** What the first release's bench calls its smallest start, and its figure is of. */
const STARTED_WITH = 1_000
const BUILD_BYTES = 5_000 * SIGNALS // what a build of them writes to, and more
/** What the first release had where the bars were set: listings a second, times the p99 of an idle server, otherwise seconds. */
const THEN = { merged: 45_000, mirrored: 10.2, whileMerging: 0.7, started: 0.99, tested: 290 }
const TOGETHER = 'node dist/bench/run.js while-merging upstreams restart feed tests first-release'
const FEWER = { ...process.env, SIGNALS: String(SIGNALS) }

const run = promisify(execFile)
/** The folder of the first release, built. */
async function buildFirst(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'first-release-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  if (!(await unpack(FIRST, folder)))
    throw new Error(`${FIRST} is not in this checkout: it needs the whole history (git fetch --unshallow)`)
  await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder }) // builds it as well
  return folder
}

/** What one of its benches prints. */
async function ofFirst(folder: string, bench: string, sizes: readonly number[] = []): Promise<string> {
  await haveAtHand(BUILD_BYTES)
  const script = [`dist/bench/${bench}.js`, ...sizes.map(String)]
  const { stdout } = await run('node', ['--expose-gc', ...script], { cwd: folder, env: FEWER })
  return stdout
}

/** The number that a pattern finds in what was printed. */
function numberIn(printed: string, pattern: RegExp): number {
  const found = pattern.exec(printed)?.[1]
  if (found === undefined)
    throw new Error(`the first release's bench no longer prints ${pattern}:\n${printed}`)
  return Number(found)
}

/** `ours`: words of the rows whose sum it is. */
type Comparison = { ours: readonly string[]; first: number; bar: Bar; unit: string }

/** What so much of then asks of any machine, as a bar. */
const part = (bar: number, then: number) => Math.round((bar / then) * 100) / 100

/** What the benches before this one have measured. */
async function earlierRows(): Promise<readonly Row[]> {
  if (!process.send) throw new Error(`it compares what others measure: ${TOGETHER}`)
  const [{ rows }] = (await once(process, 'message')) as [{ rows: Row[] }]
  return rows
}

function earlierOf(words: string): number {
  const found = earlier.find((row) => row.what.includes(words))?.measured
  if (found === undefined) throw new Error(`no bench before this one measured "${words}": ${TOGETHER}`)
  return found
}

function compare(what: string, { ours, first, bar, unit }: Comparison): void {
  const now = ours.map(earlierOf).reduce((sum, measured) => sum + measured)
  console.log(`    ${what}: ${rounded(now)} ${unit}, the first release ${rounded(first)} ${unit}`)
  report({ what: `${what}, against the first release`, measured: now / first, unit: 'x', bar })
}

const earlier = await earlierRows()
const folder = await buildFirst()
const merged: number[] = []
const whileMerging: number[] = []
while (merged.length < ROUNDS) {
  const printed = await ofFirst(folder, 'feed')
  merged.push(numberIn(printed, /validated once more, a second of CPU +(\d+)/))
  whileMerging.push(numberIn(printed, /p99 while merging against idle +([\d.]+)x/))
}
const mirrored = numberIn(await ofFirst(folder, 'upstreams'), /20 upstream\(s\).* listings in ([\d.]+) s/)
compare('listings a second of CPU, validated', {
  ...{ ours: ['validated as rows of agents are'], first: middle(merged), unit: 'listings' },
  bar: { atLeast: part(100_000, THEN.merged) },
})
compare('listings a second of two cores', {
  ...{ ours: ['index on two cores'], first: middle(merged), unit: 'listings' },
  bar: { atLeast: part(180_000, THEN.merged) },
})
compare('cold mirror of a million signals', {
  ...{ ours: ['cold mirror of'], first: mirrored, unit: 's' },
  bar: { atMost: part(8, THEN.mirrored) },
})
compare('request p99 while listings are merged, each against its idle', {
  ...{ ours: ['listings are merged, against idle'], first: middle(whileMerging), unit: 'x' },
  bar: { atMost: part(1, THEN.whileMerging) },
})
const started = numberIn(await ofFirst(folder, 'restart', [STARTED_WITH]), /restart to served ([\d.]+) s/)
compare(`start with ${STARTED_WITH} signals on disk, to served`, {
  ours: ['a process with nothing on disk', `served with ${STARTED_WITH} signals on disk, beyond`],
  ...{ first: started, unit: 's', bar: { atMost: part(0.5, THEN.started) } },
})
const { seconds: tested } = await timeTests(folder) // whether or not all of it passes on this machine
compare('`npm test`', {
  ...{ ours: ['`npm test`'], first: tested, unit: 's' },
  bar: { atMost: part(150, THEN.tested) },
})
