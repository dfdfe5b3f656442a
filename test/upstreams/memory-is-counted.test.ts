/** What upstreams' rows take is counted from what is held, whatever happened before, and stays below its bound. */
import fc from 'fast-check'
import { test } from 'tap'
import { canonicalUrl } from '../../src/adcp/url.js'
import type { Scope } from '../../src/upstreams/mirror/scope-setting.js'
import { slabBuffers } from '../../src/upstreams/rows/slab.js'
import type { Upstreams } from '../../src/upstreams/upstreams.js'
import { type Agent, ownRow, startAgent } from '../composition/support/scripted-agents.js'
import { proven } from '../support/proven.js'
import { createManualClock } from '../support/upstream-clock.js'
import { configOf, openUpstreams, until } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }

const REFRESH_MS = 60_000
const DROP_MS = 3_600_000
const ROW_COLUMNS = 18 // bytes of a row's place, length and digest
const ROOM = 120_000
const GOLD: Scope = { name: 'gold', caller: 'acme', account: { account_id: 'gold' } }
const limits = { rowsPerUpstream: 10_000, rowBytes: 64 * 1024, pageBytes: 4 * 1024 ** 2 }

/** Rows that lie in the same memory take it once. */
function bytesHeld(upstreams: Upstreams): number {
  const slices = upstreams.holdings().flatMap(({ slice }) => slice ?? [])
  const buffers = new Set(slices.flatMap(({ rows }) => slabBuffers(rows)))
  const columns = slices.reduce((sum, { rows }) => sum + rows.count * ROW_COLUMNS, 0)
  return [...buffers].reduce((sum, { byteLength }) => sum + byteLength, columns)
}

async function startWorld(t: Test, count: number) {
  const agents = await Promise.all(Array.from({ length: count }, (_, at) => startAgent(`a${at}`)))
  const there = new Set(agents)
  const deals = new Set<Agent>()
  const hanging = new Set<string>()
  const isHanging = (url: string) => hanging.has(`${url} everybody`) || hanging.has(`${url} gold`)
  const isThere = (url: string) => [...there].some((agent) => agent.url === url)
  let memoryBytes = ROOM
  const config = () => ({
    ...configOf(
      [...there].map(({ name, url }) => ({ id: name, url, protocol: 'mcp' as const })),
      { refreshMs: REFRESH_MS, staleAfterMs: DROP_MS, dropAfterMs: DROP_MS },
    ),
    scopes: new Map([...deals].map(({ url }) => [canonicalUrl(url) ?? '', [GOLD]])),
    limits: { ...limits, memoryBytes },
  })
  const time = createManualClock()
  const { upstreams } = await openUpstreams(t, { ...config(), statics: [] }, { clock: time.clock })
  t.teardown(async () => {
    for (const agent of agents) agent.behave('answers')
    await Promise.all(agents.map(({ close }) => close()))
  })
  await upstreams.start()
  return {
    ...{ agents, upstreams, there, deals, time },
    apply: () => upstreams.reconfigure(config()),
    allow(bytes: number) {
      memoryBytes = bytes
      upstreams.reconfigure(config())
    },
    offer(agent: Agent, rows: number, version: number): void {
      agent.offer(Array.from({ length: rows }, (_, at) => ownRow(agent.url, at, at === 0 ? version : 1)))
    },
    offerGold(agent: Agent, rows: number, version: number): void {
      agent.offerGold(Array.from({ length: rows }, (_, at) => ownRow(agent.url, at, at === 1 ? version : 1)))
    },
    refreshed: () => time.advance(REFRESH_MS * 1.2),
    async counted(what: string): Promise<void> {
      await until(`all are read ${what}`, () =>
        [...upstreams.statuses(), ...upstreams.accountStatuses()].every(
          ({ agentUrl, nextAttemptAt = 0 }) =>
            nextAttemptAt > time.clock.now() || isHanging(agentUrl) || !isThere(agentUrl),
        ),
      )
      await until(`the count is right ${what}`, () => {
        const { usedBytes } = upstreams.memory()
        return usedBytes === bytesHeld(upstreams) && usedBytes <= memoryBytes
      })
    },
    behave(agent: Agent, how: 'answers' | 'hangs', whom: 'everybody' | 'gold' = 'everybody'): void {
      agent.behave(how, whom)
      if (how === 'hangs') hanging.add(`${agent.url} ${whom}`)
      else hanging.delete(`${agent.url} ${whom}`)
    },
    held: ({ name }: Agent) =>
      upstreams.holdings().find(({ upstream, scope }) => upstream === name && scope === 'public')?.slice,
  }
}

test('rows that gave way and are confirmed afterwards are counted again', async (t) => {
  const world = await startWorld(t, 2)
  const { there, upstreams, held, apply } = world
  const [large, newcomer] = world.agents as [Agent, Agent]
  world.offer(large, 150, 1)
  world.offer(newcomer, 140, 1)
  there.delete(newcomer)
  apply()
  await until('the rows', () => held(large)?.rows.count === 150)
  world.behave(large, 'hangs')
  const calls = large.calls()
  world.refreshed()
  await until('the poll', () => large.calls() > calls)
  there.add(newcomer)
  apply()
  await until('the eviction', () => held(large) === undefined)
  await until('the newcomer', () => held(newcomer)?.rows.count === 140)
  await world.counted('without them')
  there.delete(newcomer)
  apply()
  world.behave(large, 'answers')
  await until('the rows are confirmed', () => held(large)?.rows.count === 150)
  await world.counted('with them')
  t.ok(upstreams.memory().usedBytes > 50_000)
})

type World = Awaited<ReturnType<typeof startWorld>>
type Step = { name: string; run(world: World, version: number): void }

const at = fc.nat({ max: 2 })
const whom = fc.constantFrom('everybody' as const, 'gold' as const)

const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(at, fc.nat({ max: 300 })).map(
    ([one, rows]): Step => ({
      name: `a${one} offers ${rows}`,
      run: (world, version) => world.offer(world.agents[one] as Agent, rows, version),
    }),
  ),
  fc.tuple(at, fc.nat({ max: 300 })).map(
    ([one, rows]): Step => ({
      name: `a${one} offers ${rows} to gold`,
      run: (world, version) => world.offerGold(world.agents[one] as Agent, rows, version),
    }),
  ),
  fc.tuple(at, whom, fc.constantFrom('answers' as const, 'answers' as const, 'hangs' as const)).map(
    ([one, who, how]): Step => ({
      name: `a${one} ${how} ${who}`,
      run: ({ agents, behave }) => behave(agents[one] as Agent, how, who),
    }),
  ),
  at.map(
    (one): Step => ({
      name: `a${one} comes or goes`,
      run({ agents, there, apply }) {
        const agent = agents[one] as Agent
        if (!there.delete(agent)) there.add(agent)
        apply()
      },
    }),
  ),
  at.map(
    (one): Step => ({
      name: `gold comes to a${one}, or goes`,
      run({ agents, deals, apply }) {
        const agent = agents[one] as Agent
        if (!deals.delete(agent)) deals.add(agent)
        apply()
      },
    }),
  ),
  fc.constantFrom(ROOM, ROOM / 3, ROOM * 4).map(
    (bytes): Step => ({
      name: `room for ${bytes}`,
      run: ({ allow }) => allow(bytes),
    }),
  ),
  { weight: 3, arbitrary: fc.constant({ name: 'a refresh', run: ({ refreshed }: World) => refreshed() }) },
  fc.constant({ name: 'an hour', run: ({ time }: World) => time.advance(DROP_MS + REFRESH_MS) }),
)

test('after any order of events the count is what is held, and within its bound', async (t) => {
  const property = fc.asyncProperty(fc.array(steps, { minLength: 30, maxLength: 30 }), async (sequence) => {
    const teardowns: (() => unknown)[] = []
    const world = await startWorld({ teardown: (task) => teardowns.unshift(task) }, 3)
    try {
      world.apply()
      for (const [version, { name, run }] of sequence.entries()) {
        run(world, version + 2)
        await world.counted(`after step ${version}, "${name}"`)
      }
    } finally {
      for (const teardown of teardowns) await teardown()
    }
  })
  await proven(t, 2, property)
  t.pass('every count was right')
})
