/** Whoever asks for page after page misses no row that stays, however the feed changes in between. */
import { test } from 'tap'
import { startScripted, until } from '../composition/support/scripted.js'
import { type Agent, providerRow, type Row } from '../composition/support/scripted-agents.js'
import { PROVIDERS } from '../composition/support/scripted-strangers.js'
import { type Json, read } from './support/console-world.js'

const KEY = 'the-key'
const SORTS = ['relevance', 'price', 'price_desc', 'coverage', 'name', 'provider', 'sellers']

test('a walk through the pages shows each row that stays once, while others come and go', async (t) => {
  const world = await startScripted(t, { agents: 1 })
  const [agent] = world.agents as [Agent]
  const row = (at: number): Row => ({
    ...providerRow(PROVIDERS[at % PROVIDERS.length] as never, at, 1 + (at % 4)),
    name: `s${at}`,
    coverage_percentage: 1 + (at % 7),
  })
  const rows = (numbers: readonly number[]) => numbers.map(row)
  const all = Array.from({ length: 60 }, (_, at) => at)
  const staying = all.filter((at) => at % 4 === 0)
  const before = all.filter((at) => at % 4 !== 3)
  const after = all.filter((at) => at % 4 !== 1 || at > 50)
  const others = all.filter((at) => at % PROVIDERS.length !== 0) // nothing of the first provider
  agent.offer(rows(before))
  await world.start({ statics: [{ id: 'a0', agent }] })
  const { url } = world.federation()
  const ask = async (query: string) => (await read(url, `signals?${query}`, KEY)).body
  const shows = (numbers: readonly number[]) =>
    until(
      () => ask('limit=100&sort=coverage'),
      ({ signals }) => {
        const names = new Set((signals as Json[]).map(({ name }) => name))
        return names.size === numbers.length && numbers.every((at) => names.has(row(at).name))
      },
    )
  const rest = async (sort: string, { signals, next }: Json): Promise<string[]> => {
    const names = (signals as Json[]).map(({ name }) => String(name))
    if (next === undefined) return names
    const more = await ask(`sort=${sort}&limit=10&after=${encodeURIComponent(String(next))}`)
    return [...names, ...(await rest(sort, more))]
  }
  for (const [first, then] of [
    [before, after],
    [after, before],
    [before, staying],
    [staying, before],
    [all, others],
    [others, all],
  ] as const) {
    agent.offer(rows(first))
    await shows(first)
    const pages = await Promise.all(SORTS.map((sort) => ask(`sort=${sort}&limit=10`)))
    agent.offer(rows(then))
    await shows(then)
    const both = first.filter((at) => then.includes(at)).map((at) => row(at).name)
    for (const [at, sort] of SORTS.entries()) {
      const seen = await rest(sort, pages[at] as Json)
      const wrong = both.filter((name) => seen.filter((one) => one === name).length !== 1)
      t.same(wrong, [], `${sort}: ${first.length} rows, then ${then.length}`)
    }
  }
})
