import fc from 'fast-check'
import { test } from 'tap'
import { canonicalUrl } from '../../src/adcp/url.js'
import { createCollector, shareRows } from '../../src/upstreams/rows/new-slice.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import { slabRow } from '../../src/upstreams/rows/slab.js'
import type { Slice } from '../../src/upstreams/rows/slice.js'
import { proven } from '../support/proven.js'
import { countTurns } from '../support/turns.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, rows, until } from '../support/upstream-world.js'

async function collected(names: readonly string[]) {
  const collector = createCollector()
  const rows = names.map((name, at) => row(0, { signal_agent_segment_id: `${name} ${at}`, name }))
  await collector.take(readRows(rows.map((each) => Buffer.from(JSON.stringify(each)))))
  return collector.finish()
}

/** Rows as they are named, whatever their place: equal names are equal rows. */
async function named(names: readonly string[]) {
  const collector = createCollector()
  const rows = names.map((name) => row(0, { signal_agent_segment_id: name, name }))
  await collector.take(readRows(rows.map((each) => Buffer.from(JSON.stringify(each)))))
  return collector.finish()
}

const sliceOf = ({ rows, digests }: Awaited<ReturnType<typeof named>>) => ({ rows, digests }) as Slice
const texts = ({ rows }: Pick<Slice, 'rows'>) =>
  Array.from({ length: rows.count }, (_, at) => Buffer.from(slabRow(rows, at)).toString())
const bytesBeyond = (rows: Slice['rows'], others: readonly Slice['rows'][]) => {
  const known = new Set(others.flatMap(({ chunks }) => chunks.map(({ buffer }) => buffer)))
  return rows.chunks.reduce((sum, { buffer }) => sum + (known.has(buffer) ? 0 : buffer.byteLength), 0)
}

test('shared rows are the rows of the walk, whatever came, went or changed places', async (t) => {
  const names = fc.uniqueArray(fc.integer({ min: 0, max: 40 }).map(String), { maxLength: 30 })
  await proven(
    t,
    200,
    fc.asyncProperty(names, names, names, async (first, second, third) => {
      let before = await named(first)
      for (const next of [second, third]) {
        const walked = await named(next)
        const shared = await shareRows(walked, sliceOf(before))
        if (texts(shared).join() !== texts(walked).join()) return false
        before = shared
      }
      return true
    }),
  )
})

test('a slice costs what changed beside the one before, and never holds much that is dead', async (t) => {
  const names = Array.from({ length: 400 }, (_, at) => `row ${at}`)
  let before = await collected(names)
  const whole = bytesBeyond(before.rows, [])
  for (let walk = 0; walk < 40; walk += 1) {
    for (let at = walk; at < names.length; at += 50) names[at] = `row ${at} of walk ${walk}`
    const shared = await shareRows(await collected(names), sliceOf(before))
    if (walk === 0) t.ok(bytesBeyond(shared.rows, [before.rows]) < whole * 0.05, 'eight rows of four hundred')
    before = shared
    t.ok(bytesBeyond(shared.rows, []) < whole * 1.5)
  }
  t.ok(before.rows.chunks.length < 35, 'the small chunks of so many walks were written together')
})

test('a slice of many rows is shared in portions, between which others are served', async (t) => {
  const names = Array.from({ length: 20_000 }, (_, at) => `row ${at}`)
  const before = await collected(names)
  names[7] = 'another row'
  const walked = await collected(names)
  const counted = countTurns()
  const shared = await shareRows(walked, sliceOf(before))
  const turns = counted.stop()
  t.ok(turns >= 5, `${turns} turns`)
  t.ok(bytesBeyond(shared.rows, [before.rows]) < 1_000)
  t.same(texts(shared), texts(walked))
})

test('what an account is offered like everybody is held once', async (t) => {
  const agent = await startMcpAgent((task, args) => {
    if (task !== 'get_signals') return CAPABILITIES
    const own = args.account ? [row(7, { name: 'a price of its own' })] : [row(7)]
    return {
      status: 'completed',
      signals: [...rows(7), ...own, ...rows(200).slice(8)],
      cache_scope: args.account ? 'account' : 'public',
      pagination: { has_more: false },
    }
  })
  t.teardown(agent.close)
  const account = { name: 'gold', caller: 'acme', account: { account_id: 'gold' } }
  const config = {
    ...configOf([{ id: 'a', url: agent.url }], { refreshMs: 100 }),
    scopes: new Map([[canonicalUrl(agent.url) ?? '', [account]]]),
  }
  const { upstreams } = await openUpstreams(t, config)
  await upstreams.start()
  const of = (scope: string) => upstreams.holdings().find((each) => each.scope === scope)?.slice?.rows
  const ownBytes = () => {
    const [open, own] = [of('public'), of('gold')]
    return open && own ? bytesBeyond(own, [open]) : Number.POSITIVE_INFINITY
  }
  await until('one row of its own', () => ownBytes() < 1_000) // whichever of the two was read first
  t.equal(of('gold')?.count, 200)
})

test('where members stand is kept of the first walk, and of no later one', async (t) => {
  let version = 1
  const agent = await startMcpAgent((task) => {
    if (task !== 'get_signals') return CAPABILITIES
    const signals = [...rows(199), row(199, { name: `version ${version}` })]
    return { status: 'completed', signals, cache_scope: 'public', pagination: { has_more: false } }
  })
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }], { refreshMs: 100 }))
  await upstreams.start()
  const held = () => upstreams.holdings()[0]?.slice
  await until('read', () => held()?.rows.count === 200)
  const { rows: first, digests } = held() as Slice
  t.equal(first.places?.ends.length, 200)
  version += 1
  await until('read again', () => held()?.digests !== digests)
  t.equal(held()?.rows.places, undefined)
  t.ok(bytesBeyond((held() as Slice).rows, [first]) < 2_000)
})
