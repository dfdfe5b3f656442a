/** What a question costs, whatever upstreams call the places where their signals can be activated. */
import { type Test, test } from 'tap'
import { readSynonyms } from '../../src/briefs/briefs.js'
import { readBrief } from '../../src/search/read-brief.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { costRatio } from '../support/cost-ratio.js'

const MOST = 10 // one usually; a question that looks at every platform for each word takes a hundred times as long

const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))

/** To read a question so often; it names `found` of the platforms. */
function asking(t: Test, question: string, platforms: readonly string[], times: number, found: string[]) {
  const read = () => readBrief(synonyms, question, platforms)
  t.same(read().platforms, found)
  return { work: () => void read(), times }
}

test('a question takes the time of its words, not of the platforms that there are', async (t) => {
  const named = 'connected square'
  const places = (count: number) => [...Array.from({ length: count }, (_, at) => `place of ${at} x`), named]
  const question = `activate on ${named} ${'people on place who shop '.repeat(70)}`
  const few = asking(t, question, places(200), 20, [named])
  const many = asking(t, question, places(20_000), 1, [named])
  const ratio = await costRatio(few, many, MOST)
  t.ok(ratio < MOST, `a hundred times the platforms: ${ratio.toFixed(1)} times the time`)
})

test('names of many words that begin alike are read once', async (t) => {
  const question = 'place '.repeat(1_000)
  const names = Array.from({ length: 200 }, (_, at) => `${'place '.repeat(at + 1)}x`)
  const few = asking(t, question, names.slice(-1), 4, [])
  const many = asking(t, question, names, 2, [])
  const ratio = await costRatio(few, many, MOST)
  t.ok(ratio < MOST, `two hundred names: ${ratio.toFixed(1)} times the time of the longest`)
})
