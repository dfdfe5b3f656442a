/** What a question costs, whatever upstreams call the places where their signals can be activated. */
import { readFile } from 'node:fs/promises'
import { test } from 'tap'
import { parse } from 'yaml'
import { readBrief } from '../../src/search/reading.js'
import { compileSynonyms, type SynonymFile } from '../../src/search/synonyms.js'

test('a question takes the time of its words, not of the platforms that there are', async (t) => {
  const synonyms = compileSynonyms(parse(await readFile('config/synonyms.yaml', 'utf8')) as SynonymFile)
  const platforms = [...Array.from({ length: 20_000 }, (_, at) => `place of ${at} x`), 'connected square']
  const question = `activate on connected square ${'people on place who shop '.repeat(70)}`
  t.match(readBrief(synonyms, question, platforms), { platforms: ['connected square'] })
  const before = process.cpuUsage()
  for (let asked = 0; asked < 10; asked += 1) readBrief(synonyms, question, platforms)
  const { user } = process.cpuUsage(before)
  t.ok(user < 500_000, `ten questions took ${user / 1_000} ms`)
})
