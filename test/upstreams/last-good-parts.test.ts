import fc from 'fast-check'
import { type Test, test } from 'tap'
import { carryParts, createCollector } from '../../src/upstreams/rows/new-slice.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import { PARTS, type Slice, sliceListing } from '../../src/upstreams/rows/slice.js'
import { proven } from '../support/proven.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, until } from '../support/upstream-world.js'

const HOUR = 3_600_000
type Row = Record<string, unknown>

const priced = (at: number, cpm: number, more: Row = {}) =>
  row(at, { pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }], ...more })

function unpriced(at: number, more: Row = {}): Row {
  const { pricing_options: _, ...rest } = row(at, more)
  return rest
}

async function sliceOf(rows: readonly Row[]): Promise<Slice> {
  const collector = createCollector()
  await collector.take(readRows(rows.map((each) => Buffer.from(JSON.stringify(each)))))
  const found = collector.finish()
  const about = { upstream: 'a', agentUrl: 'https://a.example/mcp', scope: 'public', walkedAt: 0 }
  return { ...about, mode: 'wholesale', rows: found.rows, digests: found.digests, dropped: {} }
}

test('carried prices are those of the same segment of the same signal, and never replace a stated one', async (t) => {
  const rowOf = fc.record({
    segment: fc.integer({ min: 0, max: 7 }),
    signal: fc.integer({ min: 0, max: 3 }),
    cpm: fc.option(fc.integer({ min: 1, max: 1_000 })),
    coverage: fc.option(fc.integer({ min: 0, max: 100 })),
  })
  const any = fc.uniqueArray(rowOf, { selector: ({ segment }) => segment, maxLength: 8 })
  type Given = { segment: number; signal: number; cpm: number | null; coverage: number | null }
  const written = ({ segment, signal, cpm, coverage }: Given): Row => {
    const base = cpm === null ? unpriced(signal) : priced(signal, cpm)
    return {
      ...base,
      signal_agent_segment_id: `segment_${segment}`,
      ...(coverage !== null && { coverage_percentage: coverage }),
    }
  }
  await proven(
    t,
    200,
    fc.asyncProperty(any, any, fc.subarray([...PARTS]), async (before, now, parts) => {
      const old = await sliceOf(before.map(written))
      const found = await carryParts(await sliceOf(now.map(written)).then(collectedOf), old, parts)
      return now.every((given, at) => {
        const was = before.find(({ segment, signal }) => segment === given.segment && signal === given.signal)
        const expected = {
          cpm: given.cpm ?? (parts.includes('pricing') ? (was?.cpm ?? null) : null),
          coverage: given.coverage ?? (parts.includes('coverage') ? (was?.coverage ?? null) : null),
        }
        const listing = sliceListing({ rows: found.rows } as Slice, at)
        const [option] = listing.pricing_options ?? []
        const cpm = option && 'cpm' in option ? option.cpm : null
        return cpm === expected.cpm && (listing.coverage_percentage ?? null) === expected.coverage
      })
    }),
  )
})

const collectedOf = ({ rows, digests }: Slice) => ({
  rows,
  digests,
  dropped: {},
  refused: [],
  quirks: [],
  domains: [],
})

test('a row of which nothing but an outage changed is the same bytes as before', async (t) => {
  const before = await sliceOf([priced(0, 3, { coverage_percentage: 5 }), priced(1, 4)])
  const outage = await sliceOf([unpriced(0, { coverage_percentage: 5 }), unpriced(1)])
  const { digests } = await carryParts(collectedOf(outage), before, ['pricing'])
  t.same(digests, before.digests)
})

/** An agent whose prices may be out; it gives tokens that do not tell. */
function pricingAgent() {
  const state = { rows: [priced(0, 3), priced(1, 4)] as Row[], out: false }
  const handle = (task: string, args: Record<string, unknown>) => {
    if (task === 'get_adcp_capabilities') return CAPABILITIES
    if (task !== 'get_signals') return undefined
    const tokens = { status: 'completed', wholesale_feed_version: 'v1', cache_scope: 'public' }
    if (args.if_wholesale_feed_version === 'v1' && !state.out) return { ...tokens, unchanged: true }
    return {
      ...tokens,
      signals: state.rows,
      pagination: { has_more: false },
      ...(state.out && { incomplete: [{ scope: 'pricing', description: 'the rate card is away' }] }),
    }
  }
  return { state, handle }
}

/** Reads such an agent each hour, and drops what is older than a day. */
async function startPriced(t: Test) {
  const agent = pricingAgent()
  const server = await startMcpAgent(agent.handle)
  t.teardown(server.close)
  const time = createManualClock()
  const config = configOf([{ id: 'a', url: server.url }], { refreshMs: HOUR, dropAfterMs: 24 * HOUR })
  const first = await openUpstreams(t, config, { clock: time.clock })
  await first.upstreams.start()
  return { agent, server, time, config, first }
}

test('prices that are out stay as they were, over a restart too, until the drop cap or until they are back', async (t) => {
  const { agent, time, config, first } = await startPriced(t)
  const cpms = (slice: Slice | undefined) =>
    Array.from({ length: slice?.rows.count ?? 0 }, (_, at) => {
      const [option] = sliceListing(slice as Slice, at).pricing_options ?? []
      return option && 'cpm' in option ? option.cpm : undefined
    })
  await until('the prices', () => cpms(first.upstreams.slices()[0]).length === 2)
  const since = time.clock.now()

  agent.state.out = true
  agent.state.rows = [unpriced(0), unpriced(1), unpriced(2)]
  const walkedAt = () => first.upstreams.statuses()[0]?.walkedAt ?? 0
  const walks = async (ms: number) => {
    const before = walkedAt()
    time.advance(ms)
    await until('a walk', () => walkedAt() > before)
  }
  await walks(1.2 * HOUR)
  await until('the outage', () => first.upstreams.statuses()[0]?.outages !== undefined)
  t.same(cpms(first.upstreams.slices()[0]), [3, 4, undefined])
  t.equal(first.upstreams.statuses()[0]?.outages?.pricing, since)
  await first.close()

  const second = await openUpstreams(t, config, { clock: time.clock, folder: first.folder })
  await second.upstreams.start()
  t.same(cpms(second.upstreams.slices()[0]), [3, 4, undefined], 'what was saved')
  t.ok(second.upstreams.statuses()[0]?.outages?.pricing, 'names what is carried')
  agent.state.out = false
  agent.state.rows = [priced(0, 5), priced(1, 6), priced(2, 7)]
  await until('its walk', () => {
    time.advance(HOUR / 10)
    return second.upstreams.statuses()[0]?.outages === undefined
  })
  t.same(cpms(second.upstreams.slices()[0]), [5, 6, 7])

  agent.state.out = true
  agent.state.rows = [unpriced(0), unpriced(1)]
  const outFrom = time.clock.now()
  await until('the cap', () => {
    time.advance(HOUR / 2)
    return cpms(second.upstreams.slices()[0]).join() === ','
  })
  t.ok(time.clock.now() - outFrom > 23 * HOUR, 'prices that nobody vouched for in a day are gone')
  t.equal(second.upstreams.statuses()[0]?.outages?.pricing, 0, 'and are told to be')
})

test('prices leave a day after they were last given, and rows a day after they were, whether the agent answers or not', async (t) => {
  const { agent, server, time, config, first } = await startPriced(t)
  const cpm = ({ upstreams }: typeof first) => {
    const [slice] = upstreams.slices()
    const [option] = (slice && sliceListing(slice, 0).pricing_options) ?? []
    return option && 'cpm' in option ? option.cpm : undefined
  }
  const status = () => first.upstreams.statuses()[0]
  await until('the prices', () => cpm(first) === 3)
  const givenAt = status()?.confirmedAt ?? 0

  agent.state.out = true
  agent.state.rows = [unpriced(0), unpriced(1)]
  await until('an outage of some hours', () => {
    time.advance(HOUR / 10)
    return (status()?.walkedAt ?? 0) > givenAt + 12 * HOUR
  })
  t.equal(status()?.outages?.pricing, givenAt, 'the outage does not make the prices any younger')
  await server.close()
  const rowsAt = status()?.confirmedAt ?? 0
  time.advance(givenAt + 24 * HOUR - 1 - time.clock.now())
  t.equal(cpm(first), 3, 'until the last moment')
  let changes = 0
  first.upstreams.onChange(() => {
    changes += 1
  })
  time.advance(1)
  await until('no prices', () => cpm(first) === undefined)
  t.equal(first.upstreams.slices()[0]?.rows.count, 2, 'the rows stay')
  t.equal(status()?.outages?.pricing, 0)
  t.equal(status()?.confirmedAt, rowsAt, 'and are as old as they were')
  t.equal(changes, 1)
  await first.close()

  const second = await openUpstreams(t, config, { clock: time.clock, folder: first.folder })
  const shown: (number | undefined)[] = []
  second.upstreams.onChange(() => shown.push(cpm(second)))
  await second.upstreams.start()
  t.equal(second.upstreams.slices()[0]?.rows.count, 2)
  t.same([...new Set(shown)], [undefined], 'nor are they shown when they are read from the disk')
  time.advance(rowsAt + 24 * HOUR - time.clock.now())
  t.same(second.upstreams.slices(), [], 'rows that nobody confirmed for a day leave as well')
})

test('prices that are back are read with the next reading, though the token is that of before', async (t) => {
  const agent = pricingAgent()
  const server = await startMcpAgent(agent.handle)
  t.teardown(server.close)
  const { clock, advance } = createManualClock()
  const minute = HOUR / 60
  const config = configOf([{ id: 'a', url: server.url }], { refreshMs: minute })
  const { upstreams } = await openUpstreams(t, config, { clock })
  await upstreams.start()
  const status = () => upstreams.statuses()[0]
  const isRead = () => (status()?.nextAttemptAt ?? 0) > clock.now()
  await until('the first reading', () => status()?.walkedAt !== undefined && isRead())
  const readings = async () => {
    const before = status()?.confirmedAt ?? 0
    advance(2 * minute)
    await until('a reading', () => (status()?.confirmedAt ?? 0) > before && isRead())
  }
  await readings() // unchanged, so pages are looked at; for some minutes they are not looked at again
  agent.state.out = true
  agent.state.rows = [unpriced(0), unpriced(1)]
  await readings()
  t.ok(status()?.outages?.pricing, 'the prices are out')
  agent.state.out = false
  agent.state.rows = [priced(0, 3), priced(1, 4)]
  await readings()
  t.equal(status()?.outages, undefined, 'and are back')
})
