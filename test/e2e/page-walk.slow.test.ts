import { test } from 'tap'
import { type Answer, startWorld } from '../support/federation.js'
import { until } from '../support/until.js'

test('a page walk and its version', async (t) => {
  const world = await startWorld()
  t.teardown(() => world.close())
  const [first, ...rest] = await world.walk()
  if (!first) throw new Error('a walk has at least one page')

  await t.test('all pages together give every signal once, and each page names the version', (t) => {
    const pages = [first, ...rest]
    const handles = pages.flatMap((page) => page.signals ?? []).map((row) => row.signal_agent_segment_id)
    t.equal(new Set(handles).size, handles.length)
    t.equal(handles.length, first.pagination?.total_count)
    t.ok(pages.length > 2, `${pages.length} pages`)
    for (const page of pages) {
      t.equal(page.wholesale_feed_version, first.wholesale_feed_version)
      t.equal(page.pricing_version, first.pricing_version)
      t.equal(page.cache_scope, 'public')
    }
    t.end()
  })

  await t.test('a probe with the token answers unchanged, and nothing else', async (t) => {
    for (const probe of [{}, { if_pricing_version: first.pricing_version }]) {
      const answer = await world.wholesale({
        if_wholesale_feed_version: first.wholesale_feed_version,
        ...probe,
      })
      t.match(answer, {
        status: 'completed',
        unchanged: true,
        wholesale_feed_version: first.wholesale_feed_version,
        pricing_version: first.pricing_version,
        cache_scope: 'public',
      })
      t.notOk('signals' in answer)
      t.notOk('pagination' in answer)
    }
    const other = await world.wholesale({
      if_wholesale_feed_version: first.wholesale_feed_version,
      if_pricing_version: 'another',
    })
    t.notOk('unchanged' in other, 'a price version that does not match gives the full payload')
    t.ok(other.signals)
  })

  await t.test('equivalent filters give equal tokens, different ones do not', async (t) => {
    const tokenOf = async (filters: object) => (await world.wholesale({ filters })).wholesale_feed_version
    const plain = await tokenOf({ catalog_types: ['owned', 'marketplace'], max_cpm: 5 })
    t.equal(await tokenOf({ max_cpm: 5.0, catalog_types: ['marketplace', 'owned', 'owned'] }), plain)
    t.not(await tokenOf({ catalog_types: ['owned'], max_cpm: 5 }), plain)
    t.equal(await tokenOf({}), first.wholesale_feed_version, 'no filter and an empty filter are one')
  })

  await t.test('a restarted process gives the same token, and its cursors go on', async (t) => {
    const half = await world.wholesale({ pagination: { max_results: 50 } })
    await world.restart()
    const again = await world.wholesale({ pagination: { max_results: 50 } })
    t.equal(again.wholesale_feed_version, first.wholesale_feed_version)
    t.equal(again.pricing_version, first.pricing_version)
    const next = await world.wholesale({
      pagination: { max_results: 50, cursor: half.pagination?.cursor },
    })
    t.equal(next.status, 'completed')
    t.not(next.signals?.[0]?.signal_agent_segment_id, again.signals?.[0]?.signal_agent_segment_id)
  })

  await t.test('a price that moves moves the pricing version alone', async (t) => {
    world.sandbox.agents.northwind.reprice()
    await world.restart() // reads every upstream again
    const isMoved = ({ pricing_version: version }: Answer) => version !== first.pricing_version
    const moved = await until(() => world.wholesale(), isMoved)
    t.equal(moved.wholesale_feed_version, first.wholesale_feed_version)
  })
})
