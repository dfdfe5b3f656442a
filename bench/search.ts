/**
 * Brief search: how fast over 100,000 signals, and how good over the judged briefs.
 * Bars: under 1 ms (docs/performance.md); nDCG@10 and recall@50 above a plain full-text index.
 * Run: node dist/bench/search.js [signals]
 */
import { performance } from 'node:perf_hooks'
import Database from 'libsql'
import { createMarket, type Market } from '../sandbox/market.js'
import { readSynonyms } from '../src/briefs/briefs.js'
import { drained } from '../src/process/portions.js'
import { readQuestion } from '../src/search/concepts.js'
import { readBrief } from '../src/search/read-brief.js'
import type { SearchIndex, Synonyms } from '../src/search/search-index.js'
import { compileSynonyms } from '../src/search/synonyms.js'
import type { TermTable } from '../src/search/term-table.js'
import { givenNumber } from '../test/support/given.js'
import { JUDGED_BRIEFS as FIRST, grade, ndcg, recall } from '../test/support/judged-briefs.js'
import { JUDGED_READINGS, PLATFORMS } from '../test/support/judged-readings.js'
import { indexRows, searchAtOnce } from '../test/support/search-at-once.js'
import { report } from './report.js'

const JUDGED_BRIEFS = [...FIRST, ...JUDGED_READINGS]
const ROUNDS = 20
const FTS_ROUNDS = 2
const LIMIT = 1_000

const percentile = (sorted: readonly number[], share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1)
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

function tableBytes({ text, textAt, postingAt, rows, impact }: TermTable): number {
  return [text, textAt, postingAt, rows, impact].reduce((sum, { byteLength }) => sum + byteLength, 0)
}

function build(market: Market, synonyms: Synonyms): { index: SearchIndex; ms: number } {
  const rows = Array.from({ length: market.size }, (_, at) => {
    const { name, description, source, ref } = market.signal(at)
    return { name, description, data_provider: source, signal_ref: ref }
  })
  const started = process.cpuUsage()
  const index = indexRows(rows, synonyms)
  return { index, ms: process.cpuUsage(started).user / 1_000 }
}

function fullText(market: Market): (brief: string, limit: number) => number[] {
  const database = new Database(':memory:')
  database.exec(
    `create virtual table signal using fts5(name, description, source, tokenize = 'porter unicode61')`,
  )
  const insert = database.prepare('insert into signal (rowid, name, description, source) values (?, ?, ?, ?)')
  database.exec('begin')
  for (let at = 0; at < market.size; at += 1) {
    const { name, description, source } = market.signal(at)
    insert.run(at + 1, name, description, source)
  }
  database.exec('commit')
  const select = database.prepare(
    'select rowid from signal where signal match ? order by bm25(signal, 3, 1, 1) limit ?',
  )
  return (brief, limit) => {
    const match = (brief.match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => `"${word}"`).join(' OR ')
    return (select.all(match, limit) as { rowid: number }[]).map(({ rowid }) => rowid - 1)
  }
}

/** Each brief's fastest of some rounds, in order, so that what else the machine does is not measured. */
function timed(rounds: number, ask: (brief: string) => unknown): number[] {
  const took = JUDGED_BRIEFS.map(() => Number.POSITIVE_INFINITY)
  for (let round = 0; round <= rounds; round += 1) {
    for (const [at, { brief }] of JUDGED_BRIEFS.entries()) {
      const started = performance.now()
      ask(brief)
      took[at] = Math.min(took[at] as number, performance.now() - started)
    }
  }
  return took.sort((one, other) => one - other)
}

function words(took: readonly number[]): string {
  return [
    `p50 ${percentile(took, 0.5).toFixed(2)} ms`,
    `p99 ${percentile(took, 0.99).toFixed(2)} ms`,
    `slowest ${percentile(took, 1).toFixed(2)} ms`,
  ].join(', ')
}

const size = givenNumber(0, 100_000)
const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))
const market = createMarket({ size, seed: 1 })
const { index, ms } = build(market, synonyms)
/** As a question is asked: its words are read, then looked up. */
function asker(index: SearchIndex) {
  const search = searchAtOnce(index, synonyms)
  return (brief: string, limit: number) => {
    const { rest, countries } = readBrief(synonyms, brief, PLATFORMS)
    return search(rest, { limit, countries })
  }
}
const sums = new Float32Array(size)
/** The least that every row with a word of the question can cost: its impact is added up, and nothing is compared. */
function added(index: SearchIndex, brief: string): void {
  const { rest, countries } = readBrief(synonyms, brief, PLATFORMS)
  for (const { alternatives, idf } of drained(readQuestion(index, synonyms, rest, countries)).concepts) {
    for (const { table, term } of alternatives) {
      const { rows, impact, postingAt } = table
      const end = postingAt[term + 1] as number
      for (let at = postingAt[term] as number; at < end; at += 1) {
        const row = rows[at] as number
        sums[row] = (sums[row] as number) + idf * (impact[at] as number)
      }
    }
  }
}
const ask = asker(index)
const plain = fullText(market)
console.log(
  `${size} signals: built in ${(ms / 1_000).toFixed(2)} s of CPU, ${megabytes(tableBytes(index.words) + tableBytes(index.pairs))} MB`,
)
const took = timed(ROUNDS, (brief) => ask(brief, LIMIT))
console.log(`briefs     ${words(took)}`)
console.log(`SQLite FTS5 ${words(timed(FTS_ROUNDS, (brief) => plain(brief, LIMIT)))}`)
const least = timed(ROUNDS, (brief) => added(index, brief))
report({
  what: `a question among ${size} signals, p99`,
  ...{ measured: percentile(took, 0.99), unit: 'ms', bar: { atMost: 1 } },
  limit: {
    is: percentile(least, 0.99),
    of: 'reading the question, and adding each posting of its words once',
  },
})

const judgedMarket = createMarket({ size: 2_400, seed: 1 })
const judged = asker(build(judgedMarket, synonyms).index)
const judgedPlain = fullText(judgedMarket)
const measured = JUDGED_BRIEFS.map(({ brief, wanted }) => {
  const all = Array.from({ length: judgedMarket.size }, (_, at) => grade(wanted, judgedMarket.signal(at)))
  const ours = [...judged(brief, 50).rows].map((row) => all[row] as number)
  const theirs = judgedPlain(brief, 50).map((row) => all[row] as number)
  return {
    ours: { ndcg: ndcg(ours, all, 10), recall: recall(ours, all, 50) },
    theirs: { ndcg: ndcg(theirs, all, 10), recall: recall(theirs, all, 50) },
  }
})
console.log(`${JUDGED_BRIEFS.length} judged briefs, 2,400 signals`)
for (const [name, key] of [
  ['ours', 'ours'],
  ['FTS5', 'theirs'],
] as const) {
  const quality = mean(measured.map((each) => each[key].ndcg)).toFixed(3)
  console.log(
    `${name.padEnd(5)} nDCG@10 ${quality}, recall@50 ${mean(measured.map((each) => each[key].recall)).toFixed(3)}`,
  )
}
