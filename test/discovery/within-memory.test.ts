/** What questions leave in memory, however large the rows that upstreams answer with. */
import { test } from 'tap'
import { createKept, saidOf } from '../../src/briefs/kept.js'
import { systemClock } from '../../src/net/clock.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { createLearned } from '../../src/store/records/found.js'
import { slabBytes } from '../../src/upstreams/rows/slab.js'
import { judgeThat, listing, sliceOf } from '../feed/world.js'

const MEBIBYTE = 1024 ** 2
const platforms = Array.from({ length: 1_000 }, (_, n) => `${n}`.padEnd(180, 'p'))
const deployments = platforms.map((platform) => ({ type: 'platform' as const, platform, is_live: true }))
const large = (n: number) => listing(`s${n}`, { deployments })
const handle = (n: number) => `sig_${`${n}`.padStart(22, '0')}`
const row = (n: number) => {
  const given = large(n)
  const { signal_agent_segment_id: segment } = given
  const from = { agentUrl: 'https://north.example/mcp', scope: 'public' }
  return { handle: handle(n), ...from, segment, listing: JSON.stringify(given) }
}

test('answers are kept with what was found for them within 64 MiB, beyond that without', async (t) => {
  const kept = createKept({ clock: systemClock, secret: 'secret', onTrouble: (message) => t.fail(message) })
  t.teardown(kept.close)
  const slices = [sliceOf('north', [0, 1, 2, 3, 4].map(large))]
  const extra = buildSnapshot({ slices, judge: judgeThat({}) })
  const rows = [0, 1, 2, 3, 4].map(row)
  const texts = rows.reduce((sum, { listing }) => sum + listing.length, 0)
  const bytes = texts + extra.memory.added + slabBytes(extra.slices[0]?.slice.rows as never)
  const said = saidOf(rows, extra)
  const answer = { keys: Uint32Array.of(1, 2, 3, 4), beside: ['sig'], missing: [], said }
  const cursors: string[] = []
  for (let at = 0; at < 40; at += 1) {
    cursors.push(kept.cursor(await kept.keep('buyer', answer), 0, 'binding'))
  }
  const found = await Promise.all(cursors.map((cursor) => kept.find(cursor, 'binding', 'buyer')))
  const answers = found.flatMap((one) => (one?.kind === 'found' ? [one.answer] : []))
  t.equal(answers.length, 40, 'no answer is gone')
  const whole = answers.filter((one) => one.said).length
  t.ok(whole > 2 && whole < 40, `${whole} are whole`)
  t.ok(whole * bytes <= 64 * MEBIBYTE, 'with what is put together of them')
  t.ok(answers.at(-1)?.said, 'the newest are whole')
})

test('rows of earlier answers are remembered within 64 MiB, the last that were used', async (t) => {
  let stored = 0
  const learned = createLearned({
    found: {
      async put(rows) {
        stored += rows.length
      },
      read: async () => [],
    },
    ...{ isShared: true, clock: systemClock },
    onTrouble: (message) => t.fail(message),
  })
  t.teardown(learned.close)
  const scopesOf = () => new Map([['https://north.example/mcp', 'public']])
  const rowsOf = async (n: number) => (await learned.rowsOf([handle(n)], scopesOf)).length
  for (let n = 0; n < 200; n += 10) {
    await learned.learn(Array.from({ length: 10 }, (_, at) => row(n + at)))
    t.equal(await rowsOf(0), 1, 'a signal that is asked for again and again stays')
  }
  t.equal(stored, 200, 'all are stored')
  t.equal(await rowsOf(199), 1)
  t.equal(await rowsOf(1), 0, 'what nobody asked for since has left')
})

test('of a caller the newest fifty answers are kept, whatever others ask', async (t) => {
  const kept = createKept({ clock: systemClock, secret: 'secret', onTrouble: (message) => t.fail(message) })
  t.teardown(kept.close)
  const answer = { keys: Uint32Array.of(1, 2, 3, 4), beside: [], missing: [] }
  const asked = async (caller: string) => {
    const cursor = kept.cursor(await kept.keep(caller, answer), 0, 'binding')
    return async () => (await kept.find(cursor, 'binding', caller))?.kind
  }
  const other = await asked('other')
  const mine: (() => Promise<string | undefined>)[] = []
  for (let at = 0; at < 51; at += 1) mine.push(await asked('buyer'))
  const found = await Promise.all(mine.map((find) => find()))
  t.same(found, [undefined, ...Array.from({ length: 50 }, () => 'found')])
  t.equal(await other(), 'found')
})

test('a row that is learned again as something else is what was learned last', async (t) => {
  const learned = createLearned({
    found: { put: async () => {}, read: async () => [] },
    ...{ isShared: true, clock: systemClock },
    onTrouble: (message) => t.fail(message),
  })
  t.teardown(learned.close)
  const row = (name: string) => {
    const given = listing('s', { name })
    const of = { handle: `sig_${'0'.repeat(22)}`, scope: 'public' }
    const at = { agentUrl: 'https://north.example/mcp', segment: given.signal_agent_segment_id }
    return { ...of, ...at, listing: JSON.stringify(given) }
  }
  for (const name of ['before', 'after']) await learned.learn([row(name)])
  const [last] = await learned.rowsOf(
    [row('').handle],
    () => new Map([['https://north.example/mcp', 'public']]),
  )
  t.match(JSON.parse(last?.listing ?? '{}'), { name: 'after' })
})
