/** What a question costs, whatever upstreams call the places where their signals can be activated. */
import { readFile } from 'node:fs/promises'
import { test } from 'tap'
import { parse } from 'yaml'
import { readBrief } from '../../src/search/reading.js'
import type { SynonymFile } from '../../src/search/synonym-file.js'
import { compileSynonyms } from '../../src/search/synonyms.js'

const TURNS = 5

test('a question takes the time of its words, not of the platforms that there are', async (t) => {
  const synonyms = compileSynonyms(parse(await readFile('config/synonyms.yaml', 'utf8')) as SynonymFile)
  const places = (count: number) => [
    ...Array.from({ length: count }, (_, at) => `place of ${at} x`),
    'connected square',
  ]
  const question = `activate on connected square ${'people on place who shop '.repeat(70)}`
  function costOf(platforms: readonly string[]): number {
    const before = process.cpuUsage()
    t.match(readBrief(synonyms, question, platforms), { platforms: ['connected square'] })
    return process.cpuUsage(before).user
  }
  // Both in turn and the least of each, so that other work on the machine meets both alike.
  const [few, many] = [places(200), places(20_000)]
  const turns = Array.from({ length: TURNS }, () => ({ few: costOf(few), many: costOf(many) }))
  const least = (of: (turn: (typeof turns)[number]) => number) => Math.min(...turns.map(of))
  const ratio = least(({ many }) => many) / least(({ few }) => few)
  t.ok(ratio < 30, `a hundred times the platforms: ${ratio.toFixed(1)} times the time`)
})
