import { test } from 'tap'
import { compileProviders, judgeAt } from '../../src/authz/rules/verdict.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { rowAt } from '../../src/snapshot/snapshot.js'
import { agentUrl, listing, sliceOf } from '../feed/world.js'
import { NOW, stateWith } from './compiled.js'

const grant = (upstream: string) => ({
  ...{ url: agentUrl(upstream), authorized_for: 'all', authorization_type: 'signal_tags' },
  signal_tags: ['open'],
})

/** The feed of two agents that sell the signals: what one of them sells alone is put together in another way. */
function feedOf(definitions: Readonly<Record<string, object>>): Map<string, Record<string, unknown>> {
  const ids = Object.keys(definitions)
  const signals = ids.map((id) => ({
    id,
    name: id,
    value_type: 'binary',
    tags: ['open'],
    ...definitions[id],
  }))
  const file = { signals, authorized_agents: [grant('north'), grant('south')] }
  const provider = { ...stateWith(file), domain: 'provider.example' }
  const judge = judgeAt(compileProviders([provider]), { policy: 'strict', providers: {} }, NOW)
  const both = ids.filter((id) => id.startsWith('both'))
  const slices = [
    sliceOf(
      'north',
      ids.map((id) => listing(id)),
    ),
    sliceOf(
      'south',
      both.map((id) => listing(id, { countries: ['DE', 'US'] })),
    ),
  ]
  const snapshot = buildSnapshot({ slices, judge })
  const rows = [...snapshot.shown].map((entry) => rowAt(snapshot, entry))
  return new Map(rows.map((row) => [(row.signal_ref as { signal_id: string }).signal_id, row]))
}

for (const sold of ['alone', 'both']) {
  test(`countries that are written wrong widen nothing: sold by ${sold}`, async (t) => {
    const countries = (id: string) => feed.get(`${sold}-${id}`)?.countries
    const feed = feedOf({
      [`${sold}-partly`]: { countries: ['DE', 'fr', 7] },
      [`${sold}-lower`]: { countries: ['de'] },
      [`${sold}-text`]: { countries: 'DE' },
      [`${sold}-null`]: { countries: null },
      [`${sold}-empty`]: { countries: [] },
    })
    t.same(countries('partly'), ['DE'], 'the list is an upper bound, of which this is certain')
    t.notOk(feed.has(`${sold}-lower`), 'nobody knows where it may be used')
    t.notOk(feed.has(`${sold}-text`))
    t.ok(feed.has(`${sold}-null`), 'nothing is said')
    t.ok(feed.has(`${sold}-empty`))
    t.equal(countries('null'), undefined)
    t.equal(countries('empty'), undefined)
  })

  test(`a restriction beside one that is written wrong is not lost: sold by ${sold}`, async (t) => {
    const many = Array.from({ length: 1_001 }, (_, at) => `word_${at}`)
    const feed = feedOf({
      [`${sold}-words`]: {
        restricted_attributes: ['age', '', 7],
        policy_categories: [null, 'children_directed'],
      },
      [`${sold}-many`]: { restricted_attributes: ['age', ...many] },
    })
    t.match(feed.get(`${sold}-words`), {
      restricted_attributes: ['age'],
      policy_categories: ['children_directed'],
    })
    t.match(feed.get(`${sold}-many`), { restricted_attributes: ['age'] })
  })
}
