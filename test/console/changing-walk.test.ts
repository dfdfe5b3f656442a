/** Whoever asks for page after page misses no row that stays, however the feed changes in between. */
import { test } from 'tap'
import { startScripted, until } from '../composition/support/scripted.js'
import { type Agent, providerRow, type Row } from '../composition/support/scripted-agents.js'
import { PROVIDERS } from '../composition/support/scripted-strangers.js'
import { type Json, read } from './support/console-world.js'

const KEY = 'the-key'
/** A word that every row has: what orders the rows is what they cover. */
const SEARCH = 'q=somebody'
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
  const shows = async (numbers: readonly number[]) => {
    for (const query of ['sort=coverage', SEARCH]) {
      await until(
        () => ask(`limit=100&${query}`),
        ({ signals }) => {
          const names = new Set(((signals ?? []) as Json[]).map(({ name }) => name))
          return names.size === numbers.length && numbers.every((at) => names.has(row(at).name))
        },
      )
    }
  }
  const walks = [SEARCH, ...SORTS.map((sort) => `sort=${sort}`)]
  const rest = async (walk: string, { signals, next }: Json): Promise<string[]> => {
    const names = (signals as Json[]).map(({ name }) => String(name))
    if (next === undefined) return names
    const more = await ask(`${walk}&limit=10&after=${encodeURIComponent(String(next))}`)
    return [...names, ...(await rest(walk, more))]
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
    const pages = await Promise.all(walks.map((walk) => ask(`${walk}&limit=10`)))
    agent.offer(rows(then))
    await shows(then)
    const both = first.filter((at) => then.includes(at)).map((at) => row(at).name)
    for (const [at, walk] of walks.entries()) {
      const seen = await rest(walk, pages[at] as Json)
      const wrong = both.filter((name) => seen.filter((one) => one === name).length !== 1)
      const what = `${walk}: ${first.length} rows, then ${then.length}`
      const last = ((pages[at] as Json).signals as Json[]).at(-1)?.name
      if (walk !== SEARCH || both.includes(String(last))) t.same(wrong, [], what)
      else t.ok(wrong.length <= first.length - both.length, `${what}, without the last of the first page`)
    }
  }
})
