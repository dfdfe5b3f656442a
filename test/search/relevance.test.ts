import Database from 'libsql'
import tap, { test } from 'tap'
import { createMarket, type MarketSignal } from '../../sandbox/market.js'
import { readSynonyms } from '../../src/briefs/briefs.js'
import { readBrief } from '../../src/search/read-brief.js'
import type { SearchableRow } from '../../src/search/search-index.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { grade, JUDGED_BRIEFS, ndcg, recall } from '../support/judged-briefs.js'
import { JUDGED_READINGS, PLATFORMS } from '../support/judged-readings.js'
import { indexRows, searchAtOnce } from '../support/search-at-once.js'

const market = createMarket({ size: 2_400, seed: 1 })
const signals = Array.from({ length: market.size }, (_, index) => market.signal(index))
const rowOf = ({ name, description, source, ref }: MarketSignal): SearchableRow => ({
  name,
  description,
  data_provider: source,
  signal_ref: ref,
})

const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))
const searchAll = searchAtOnce(indexRows(signals.map(rowOf), synonyms), synonyms)

function search(brief: string, { limit }: { limit: number }) {
  const { rest, countries, unread } = readBrief(synonyms, brief, PLATFORMS)
  const found = searchAll(rest, { limit, countries })
  return { ...found, isCut: found.isCut || unread > 0 }
}

/** An independent index over the same text. */
function fts5() {
  const database = new Database(':memory:')
  database.exec(
    `create virtual table signal using fts5(name, description, source, tokenize = 'porter unicode61')`,
  )
  const insert = database.prepare('insert into signal (rowid, name, description, source) values (?, ?, ?, ?)')
  for (const { index, name, description, source } of signals) insert.run(index + 1, name, description, source)
  const select = database.prepare(
    'select rowid from signal where signal match ? order by bm25(signal, 3, 1, 1) limit ?',
  )
  const wordsOf = (brief: string) => (brief.match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => `"${word}"`)
  const rows = (match: string, limit: number) =>
    (select.all(match, limit) as { rowid: number }[]).map(({ rowid }) => rowid - 1)
  return {
    any: (brief: string, limit: number) => rows(wordsOf(brief).join(' OR '), limit),
    all: (brief: string, limit: number) => rows(wordsOf(brief).join(' AND '), limit),
    close: () => database.close(),
  }
}

const oracle = fts5()
tap.teardown(oracle.close)

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

for (const [set, briefs] of [
  ['judged briefs', JUDGED_BRIEFS],
  ['judged briefs with places, durations, prices, platforms and slips of the pen', JUDGED_READINGS],
] as const) {
  test(`${set} are answered well, and better than a plain full-text index answers them`, async (t) => {
    t.ok(briefs.length >= 72)
    const measured = briefs.map(({ brief, wanted }) => {
      const all = signals.map((signal) => grade(wanted, signal))
      t.ok(Math.max(...all) > 0, `the market has something for: ${brief}`)
      const { rows, matches } = search(brief, { limit: 50 })
      t.ok(
        [...matches].every((match) => match !== 0),
        `each row shares something with: ${brief}`,
      )
      const grades = [...rows].map((row) => all[row] as number)
      const plain = oracle.any(brief, 50).map((row) => all[row] as number)
      return {
        brief,
        ndcg: ndcg(grades, all, 10),
        recall: recall(grades, all, 50),
        plainNdcg: ndcg(plain, all, 10),
        plainRecall: recall(plain, all, 50),
      }
    })
    const [quality, found, plainQuality, plainFound] = [
      mean(measured.map((each) => each.ndcg)),
      mean(measured.map((each) => each.recall)),
      mean(measured.map((each) => each.plainNdcg)),
      mean(measured.map((each) => each.plainRecall)),
    ] as [number, number, number, number]
    for (const each of measured.filter((one) => one.ndcg < 0.7 || one.recall < 0.7)) {
      t.comment(
        `${each.brief}: nDCG@10 ${each.ndcg.toFixed(2)} (${each.plainNdcg.toFixed(2)}), recall@50 ${each.recall.toFixed(2)} (${each.plainRecall.toFixed(2)})`,
      )
    }
    t.comment(`nDCG@10 ${quality.toFixed(3)} (FTS5 ${plainQuality.toFixed(3)})`)
    t.comment(`recall@50 ${found.toFixed(3)} (FTS5 ${plainFound.toFixed(3)})`)
    t.ok(quality >= 0.97)
    t.ok(found >= 0.99)
    t.ok(quality > plainQuality)
    t.ok(found > plainFound)
  })
}

test('places, durations, prices and platforms are read from the words, and nothing else for them', async (t) => {
  for (const { brief, read } of JUDGED_READINGS) t.match(readBrief(synonyms, brief, PLATFORMS), read, brief)
})

test('no question costs more than a walk, and what was left out of one is said', async (t) => {
  const words = [...new Set(signals.flatMap(({ description }) => description.split(/\W+/)))]
  const many = (make: (word: string) => string) => words.map(make).join(' ')
  const cuts = {
    unwanted: `cars ${many((word) => `and not ${word}, `)}`,
    'unwanted and unknown': `cars ${'and not x, '.repeat(60_000)}`,
    quoted: many((word) => `"${word} adults who"`),
    spans: Array.from({ length: 200 }, (_, at) => `${at}-${at + 20} days`).join(', '),
    misspelt: many((word) => `${word.slice(0, 5)}q${word.slice(5)}`),
    'one word': 'x'.repeat(60_000),
  }
  for (const [what, question] of Object.entries(cuts)) {
    let took = Number.POSITIVE_INFINITY
    for (let round = 0; round < 3; round += 1) {
      const started = process.cpuUsage()
      t.ok(search(question, { limit: 1_000 }).isCut, what)
      took = Math.min(took, process.cpuUsage(started).user / 1_000)
    }
    t.comment(`${what}: ${took.toFixed(1)} ms of CPU`)
    t.ok(took < 100, what)
  }
  t.notOk(search('luxury travelers in Germany, but not cruises', { limit: 10 }).isCut)
})

test('a row that has every word of a question is found', async (t) => {
  let checked = 0
  for (const { name } of signals.filter(({ index }) => index % 37 === 0)) {
    const question = name.replaceAll(/[^\p{L}\p{N} ]/gu, ' ')
    const expected = oracle.all(question, 1_000)
    const found = new Set(search(question, { limit: 2_400 }).rows)
    t.ok(expected.length > 0)
    t.same(
      expected.filter((row) => !found.has(row)),
      [],
      question,
    )
    checked += expected.length
  }
  t.ok(checked > 60)
})
