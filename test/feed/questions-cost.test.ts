/** What a question costs, whatever upstreams call the places where their signals can be activated. */
import { test } from 'tap'
import { readSynonyms } from '../../src/briefs/briefs.js'
import { readBrief } from '../../src/search/read-brief.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { costRatio } from '../support/cost-ratio.js'

const MOST = 10 // one usually; a question that looks at every platform for each word takes a hundred times as long

test('a question takes the time of its words, not of the platforms that there are', async (t) => {
  const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))
  const places = (count: number) => [
    ...Array.from({ length: count }, (_, at) => `place of ${at} x`),
    'connected square',
  ]
  const question = `activate on connected square ${'people on place who shop '.repeat(70)}`
  const asking = (platforms: readonly string[], times: number) => {
    const read = () => readBrief(synonyms, question, platforms)
    t.match(read(), { platforms: ['connected square'] })
    return { work: () => void read(), times }
  }
  const ratio = await costRatio(asking(places(200), 20), asking(places(20_000), 1), MOST)
  t.ok(ratio < MOST, `a hundred times the platforms: ${ratio.toFixed(1)} times the time`)
})

test('names of many words that begin alike are read once', async (t) => {
  const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))
  const question = 'place '.repeat(1_000)
  const asking = (platforms: readonly string[], times: number) => {
    const read = () => readBrief(synonyms, question, platforms)
    t.match(read(), { platforms: [] })
    return { work: () => void read(), times }
  }
  const names = Array.from({ length: 200 }, (_, at) => `${'place '.repeat(at + 1)}x`)
  const ratio = await costRatio(asking(names.slice(-1), 4), asking(names, 2), MOST)
  t.ok(ratio < MOST, `two hundred names: ${ratio.toFixed(1)} times the time of the longest`)
})
