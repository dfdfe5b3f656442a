import { readFile } from 'node:fs/promises'
import Database from 'libsql'
import { test } from 'tap'
import { parse } from 'yaml'
import { createMarket, type MarketSignal } from '../../sandbox/market.js'
import { createSearcher } from '../../src/search/search.js'
import { createSearchIndexBuilder, type SearchableRow } from '../../src/search/search-index.js'
import { compileSynonyms, type SynonymFile } from '../../src/search/synonyms.js'
import { grade, JUDGED_BRIEFS, ndcg, recall } from '../support/judged-briefs.js'

const market = createMarket({ size: 2_400, seed: 1 })
const signals = Array.from({ length: market.size }, (_, index) => market.signal(index))
const rowOf = ({ name, description, source, ref }: MarketSignal): SearchableRow => ({
  name,
  description,
  data_provider: source,
  signal_ref: ref,
})

async function searcher() {
  const synonyms = compileSynonyms(parse(await readFile('config/synonyms.yaml', 'utf8')) as SynonymFile)
  const builder = createSearchIndexBuilder(synonyms)
  for (const signal of signals) builder.add(rowOf(signal))
  return createSearcher(builder.finish(), synonyms)
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

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length

test('judged briefs are answered well, and better than a plain full-text index answers them', async (t) => {
  t.ok(JUDGED_BRIEFS.length >= 60)
  const { search } = await searcher()
  const oracle = fts5()
  t.teardown(oracle.close)
  const measured = JUDGED_BRIEFS.map(({ brief, wanted }) => {
    const all = signals.map((signal) => grade(wanted, signal))
    t.ok(Math.max(...all) > 0, `the market has something for: ${brief}`)
    const grades = [...search(brief, { limit: 50 }).rows].map((row) => all[row] as number)
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
  t.ok(quality >= 0.93)
  t.ok(found >= 0.97)
  t.ok(quality > plainQuality)
  t.ok(found > plainFound)
})

test('a row that has every word of a question is found', async (t) => {
  const { search } = await searcher()
  const oracle = fts5()
  t.teardown(oracle.close)
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
