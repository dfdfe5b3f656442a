/** What only an upstream's own search vouches for: never on a first page, and told from what was found by its words. */
import { test } from 'tap'
import { readAnswer, startWorld } from './support/world.js'

type Told = { tributary: { relevance?: { has: string[] }[] } }
type Pages = { has_more: boolean; cursor?: string; total_count: number }

/** The demo agents count any word that they see; nothing in their feeds is about these. */
const FOREIGN = ['people who care about data privacy', 'wellness apps', 'cryptocurrency wallets']

test('a question of which nothing in the feed says a word has an empty first page', async (t) => {
  const { ask } = await startWorld(t, 240)
  let further = 0
  for (const signal_spec of FOREIGN) {
    const first = readAnswer(await ask({ signal_spec }))
    const { relevance = [] } = (first.ext as unknown as Told).tributary
    t.notOk(
      relevance.some(({ has }) => has.length === 0),
      `${signal_spec}: no row that shares nothing with it`,
    )
    const { has_more, cursor, total_count } = first.pagination as Pages
    if (first.signals.length > 0 || !has_more || cursor === undefined) continue
    t.match(first.message, /^No signal matches the words\. .*next page/, signal_spec)
    t.match(first.message, new RegExp(`\\b${total_count}\\b`), 'and how many are there')
    let at: string | undefined = cursor
    let seen = 0
    while (at !== undefined) {
      const page = readAnswer(await ask({ signal_spec, pagination: { cursor: at } }))
      const told = (page.ext as unknown as Told).tributary.relevance ?? []
      t.ok(told.length === page.signals.length && told.every(({ has }) => has.length === 0), 'marked')
      t.ok(page.signals.length > 0, 'a page of them has rows')
      seen += page.signals.length
      at = (page.pagination as Pages).cursor
    }
    t.equal(seen, total_count, 'all of them can be read')
    further += 1
  }
  t.ok(further > 0, `${further} questions have pages behind an empty one`)
})
