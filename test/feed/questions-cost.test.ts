/** What a question costs, whatever upstreams call the places where their signals can be activated. */
import { test } from 'tap'
import { readSynonyms } from '../../src/briefs/briefs.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { readBrief } from '../../src/search/wishes.js'

const TURNS = 50
const MOST = 60 // thirty usually; a question that looks at every platform for each word takes a hundred times as long

test('a question takes the time of its words, not of the platforms that there are', async (t) => {
  const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))
  const places = (count: number) => [
    ...Array.from({ length: count }, (_, at) => `place of ${at} x`),
    'connected square',
  ]
  const question = `activate on connected square ${'people on place who shop '.repeat(70)}`
  /** CPU of one of so many questions. How a short time is divided between user and system is a guess of the kernel's. */
  function costOf(platforms: readonly string[], times: number): number {
    const before = process.cpuUsage()
    for (let asked = 0; asked < times; asked += 1) {
      t.match(readBrief(synonyms, question, platforms), { platforms: ['connected square'] })
    }
    const { user, system } = process.cpuUsage(before)
    return (user + system) / times
  }
  // Both in turn and the least of each, so that other work on the machine meets both alike; on a busy one it takes more turns.
  const [few, many] = [places(200), places(20_000)]
  const least = { few: Number.POSITIVE_INFINITY, many: Number.POSITIVE_INFINITY }
  let ratio = Number.POSITIVE_INFINITY
  for (let turn = 0; turn < TURNS && !(ratio < MOST); turn += 1) {
    least.few = Math.min(least.few, costOf(few, 20))
    least.many = Math.min(least.many, costOf(many, 1))
    ratio = least.many / least.few
  }
  t.ok(ratio < MOST, `a hundred times the platforms: ${ratio.toFixed(1)} times the time`)
})
