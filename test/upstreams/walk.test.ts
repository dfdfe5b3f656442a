import { test } from 'tap'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import { walkUpstream } from '../../src/upstreams/walk/walk.js'
import { collect } from '../support/collect.js'
import { row } from '../support/upstream-world.js'

type WalkOptions = Parameters<typeof walkUpstream>[0]
type Page = Record<string, unknown> & { from?: number; to?: number }

/** A page of rows `from` to `to`, with whatever else the agent says. */
function answer({ from = 0, to = 0, ...payload }: Page): AgentOutcome {
  const rows = Array.from({ length: to - from }, (_, at) => Buffer.from(JSON.stringify(row(from + at))))
  return { kind: 'answer', payload: { signals: [], ...payload }, rows: readRows(rows) }
}

const more = (cursor: string) => ({ pagination: { has_more: true, cursor } })
const end = { pagination: { has_more: false } }

const patient = {
  ...{ conditional: false, overlay: false, walkMs: 60_000, now: () => 0 },
  ...{ maxRows: Number.POSITIVE_INFINITY, gathers: () => true },
}

/** Walks an agent whose nth answer is a function of the cursor asked for and of n. */
function walk(page: (cursor: string | undefined, nth: number) => Page, limits: Partial<WalkOptions> = {}) {
  let asked = 0
  const options: WalkOptions = {
    ...patient,
    page: async (cursor) => answer(page(cursor, asked++)),
    ...limits,
  }
  return walkUpstream(options).then((outcome) => ({ outcome, asked }))
}

test("pages are put together in their order, under the first page's tokens", async (t) => {
  const { outcome } = await walk((cursor) =>
    cursor === undefined
      ? { to: 3, wholesale_feed_version: 'v1', pricing_version: 'p1', cache_scope: 'public', ...more('b') }
      : { from: 3, to: 5, ...end },
  )
  t.match(outcome, { kind: 'complete', feedVersion: 'v1', pricingVersion: 'p1', cacheScope: 'public' })
  t.equal(outcome.kind === 'complete' && outcome.rows.count, 5)
})

test('a feed without pagination is one page', async (t) => {
  const { outcome, asked } = await walk(() => ({ to: 3 }))
  t.match(outcome, { kind: 'complete' })
  t.equal(asked, 1)
})

test('a cursor that comes twice is a loop', async (t) => {
  const { outcome } = await walk((_, nth) => ({
    from: nth * 2,
    to: nth * 2 + 2,
    ...more(nth % 3 === 0 ? 'x' : `${nth}`),
  }))
  t.match(outcome, { kind: 'failed', reason: 'cursor_loop' })
})

test('a walk keeps little of the cursors that it has seen, however long they are', async (t) => {
  const used = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const [pages, most] = [3_000, 1_000_000] // the cursors alone have twelve million bytes
  let before = 0
  let grown = 0
  await walk((_, nth) => {
    if (nth === 10) before = used()
    if (nth === pages) grown = used() - before
    const cursor = Buffer.from(`${nth}`.padStart(4_096, '_')).toString('latin1')
    return nth === pages ? end : more(cursor)
  })
  t.ok(grown < most, `${grown} bytes`)
})

test('ever new cursors over the same rows are a loop', async (t) => {
  const { outcome, asked } = await walk((_, nth) => ({ to: 4, ...more(`c${nth}`) }))
  t.match(outcome, { kind: 'failed', reason: 'cursor_loop' })
  t.ok(asked < 10, `${asked} pages`)
})

test('a feed without end is ended by its pages, by its rows, by its own count, and by the clock', async (t) => {
  const fresh = (_: unknown, nth: number) => ({ from: nth * 2, to: nth * 2 + 2, ...more(`c${nth}`) })
  const empty = await walk((_, nth) => more(`c${nth}`))
  t.match(empty, { outcome: { kind: 'failed', reason: 'endless_feed' }, asked: 20_000 })
  t.match((await walk(fresh, { maxRows: 20 })).outcome, { kind: 'failed', reason: 'endless_feed' })
  const counted = await walk((cursor, nth) => ({
    to: cursor ? 0 : 2,
    pagination: { has_more: true, cursor: `c${nth}`, total_count: 2 },
  }))
  t.match(counted.outcome, { kind: 'failed', reason: 'endless_feed' })
  t.ok(counted.asked < 10)
  let time = 0
  const slow = await walk(
    (_, nth) => {
      time += 1_000 // a second for each page
      return more(`c${nth}`)
    },
    { now: () => time },
  )
  t.match(slow.outcome, { kind: 'failed', reason: 'timeout', message: /60000 ms/ })
  t.equal(slow.asked, 60)
})

test('pages without rows are no loop while more is announced', async (t) => {
  const { outcome } = await walk((_, nth) =>
    nth < 40 ? more(`c${nth}`) : { to: 3, pagination: { has_more: false, total_count: 3 } },
  )
  t.match(outcome, { kind: 'complete' })
  t.equal(outcome.kind === 'complete' && outcome.rows.count, 3)
})

test('a page of known rows is no loop while others come', async (t) => {
  const { outcome } = await walk((_, nth) => ({
    from: nth % 3 === 1 ? 0 : nth * 4,
    to: nth % 3 === 1 ? 4 : nth * 4 + 4,
    ...(nth === 9 ? end : more(`c${nth}`)),
  }))
  t.match(outcome, { kind: 'complete', dropped: { repeated: 12 } })
})

test('a row that comes again is kept once and counted', async (t) => {
  const { outcome } = await walk((cursor) => (cursor ? { from: 1, to: 4, ...end } : { to: 2, ...more('b') }))
  t.match(outcome, { kind: 'complete', dropped: { repeated: 1 } })
  t.equal(outcome.kind === 'complete' && outcome.rows.count, 4)
})

test('a version that moves in the middle starts the walk again, and only so often', async (t) => {
  const { outcome, asked } = await walk((cursor, nth) =>
    cursor
      ? { from: 2, to: 4, wholesale_feed_version: 'v2', ...end }
      : { to: 2, wholesale_feed_version: nth === 0 ? 'v1' : 'v2', ...more('b') },
  )
  t.match(outcome, { kind: 'complete', feedVersion: 'v2' })
  t.equal(asked, 4)
  const flapping = await walk((cursor, nth) => ({
    from: cursor ? 2 : 0,
    to: cursor ? 4 : 2,
    wholesale_feed_version: `v${nth}`,
    ...(cursor ? end : more('b')),
  }))
  t.match(flapping.outcome, { kind: 'failed', reason: 'unstable_feed' })
  t.equal(flapping.asked, 8)
})

test('later pages that contradict each other are of two versions, whatever the first one told', async (t) => {
  const versions = [{ wholesale_feed_version: 'v' }, { pricing_version: 'p' }, { cache_scope: 's' }]
  for (const version of versions) {
    const [name, value] = Object.entries(version)[0] as [string, string]
    const { outcome, asked } = await walk((cursor, nth) => {
      if (cursor === undefined) return { to: 2, ...more('b') }
      const told = { [name]: `${value}${nth < 3 ? nth : 3}` } // the feed moves behind its second page, and then stays
      return cursor === 'b' ? { from: 2, to: 4, ...told, ...more('c') } : { from: 4, to: 6, ...told, ...end }
    })
    t.match(outcome, { kind: 'complete' }, name)
    t.equal(asked, 6, `${name}: it was walked again`)
  }
})

test('what the agent calls incomplete is not a walk, except for prices alone', async (t) => {
  const entry = (scope: string) => ({
    incomplete: [{ scope, description: 'no time', estimated_wait: { interval: 2, unit: 'minutes' } }],
  })
  for (const scope of ['wholesale_feed', 'signals']) {
    const { outcome } = await walk(() => ({ to: 2, ...end, ...entry(scope) }))
    t.match(outcome, { kind: 'failed', reason: 'incomplete_feed', retryAfterMs: 120_000 })
  }
  t.match((await walk(() => ({ to: 2, ...end, ...entry('pricing') }))).outcome, {
    kind: 'complete',
    out: ['pricing'],
  })
})

test('answers that break the protocol end the walk', async (t) => {
  const broken: Page[] = [
    { to: 2, pagination: { has_more: true } },
    { to: 2, ...more('x'.repeat(5_000)) },
    { signals: undefined },
    { status: 'submitted', task_id: 't' },
    { unchanged: true, signals: undefined },
  ]
  for (const page of broken) {
    t.match(
      (await walk(() => page)).outcome,
      { kind: 'failed', reason: 'protocol_error' },
      JSON.stringify(page).slice(0, 60),
    )
  }
})

test('"unchanged" is an answer where a token was sent, and "public" where an account was', async (t) => {
  const unchanged = { unchanged: true, signals: undefined }
  t.same((await walk(() => unchanged, { conditional: true })).outcome, { kind: 'unchanged', isWhole: true })
  const shared = { to: 2, cache_scope: 'public', ...more('b') }
  const { outcome, asked } = await walk(() => shared, { overlay: true })
  t.same(outcome, { kind: 'public' })
  t.equal(asked, 1)
})

test('an agent that could not finish says nothing of the whole feed', async (t) => {
  const lacking = (scope: string) => ({ incomplete: [{ scope, description: 'the accounts are away' }] })
  for (const scope of ['pricing', 'wholesale_feed', 'signals', 'coverage']) {
    const { outcome } = await walk(() => ({ to: 2, cache_scope: 'public', ...lacking(scope) }), {
      overlay: true,
    })
    t.match(
      outcome,
      { kind: 'failed', reason: 'incomplete_feed' },
      `there may be an overlay without its ${scope}`,
    )
  }
  const unchanged = { unchanged: true, signals: undefined }
  const matched = (scope: string) => walk(() => ({ ...unchanged, ...lacking(scope) }), { conditional: true })
  t.match((await matched('pricing')).outcome, { kind: 'unchanged', isWhole: false })
  t.match((await matched('signals')).outcome, { kind: 'failed', reason: 'incomplete_feed' })
})

test("an error on a later page is the walk's failure, and nothing of it is kept", async (t) => {
  const options: WalkOptions = {
    ...patient,
    page: async (cursor) =>
      cursor
        ? { kind: 'error', error: { code: 'INVALID_REQUEST', message: 'cursor expired' } }
        : answer({ to: 2, ...more('b') }),
  }
  t.match(await walkUpstream(options), { kind: 'failed', reason: 'agent_error', message: /INVALID_REQUEST/ })
})

test('a wait that is no length of time is none', async (t) => {
  const odd = { toString: 1, valueOf: 1 }
  for (const [estimated_wait, retryAfterMs] of [
    [{ interval: 2, unit: 'minutes' }, 120_000],
    [{ interval: odd, unit: 'minutes' }, undefined],
    [{ interval: 2, unit: odd }, undefined],
    [{ interval: 2, unit: '__proto__' }, undefined],
  ] as const) {
    const { outcome } = await walk(() => ({
      ...end,
      incomplete: [{ scope: 'signals', description: 'busy', estimated_wait }],
    }))
    t.match(outcome, { kind: 'failed', reason: 'incomplete_feed', retryAfterMs })
  }
})
