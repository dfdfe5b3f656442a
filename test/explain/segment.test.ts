/** Signals by what an upstream calls them: whoever else calls another so is named, and no search holds up the loop. */
import { test } from 'tap'
import { signalsOfSegment } from '../../src/explain/segment.js'
import { startScripted, until } from '../composition/support/scripted.js'
import { type Agent, ownRow } from '../composition/support/scripted-agents.js'
import { listing, sliceOf } from '../support/server-feed.js'
import { countTurns } from '../support/turns.js'

const ROWS = 40_000

test('a word in every row is no segment, and no turn of the loop waits for it', async (t) => {
  const rows = Array.from({ length: ROWS }, (_, n) => listing(`s${n}`))
  const slices = [sliceOf('northwind', rows), sliceOf('meridian', rows)]
  const counted = countTurns()
  const before = process.cpuUsage()
  t.same(await signalsOfSegment(slices, 'USD'), [])
  const { user } = process.cpuUsage(before) // what it cost, however busy the machine is
  const turns = counted.stop()
  t.comment(`${turns} turns, ${user / 1_000} ms`)
  t.ok(turns > ROWS / 512, 'others had their turn every 512 hits')
  t.ok(user < 1_500_000, 'it took seconds when each hit looked for its row from the start')
  const [one] = await signalsOfSegment(slices, `seg_s${ROWS - 1}`)
  t.match(one, { handle: /^sig_/, upstream: 'northwind' })
  t.equal((await signalsOfSegment(slices, `seg_s${ROWS - 1}`)).length, 1, 'both sell that signal')
  t.not((await signalsOfSegment(slices, 'seg_s0'))[0]?.handle, one?.handle)
})

test('a segment id that means several signals names those that are not told of', async (t) => {
  const world = await startScripted(t, { agents: 3 })
  const [north, south, west] = world.agents as [Agent, Agent, Agent]
  for (const agent of [north, south]) agent.offer([ownRow(agent.url, 0, 4)])
  west.offer([ownRow(west.url, 1, 4)])
  await world.start({ statics: world.agents.map((agent) => ({ id: agent.name, agent })) })
  await until(
    () => world.page(),
    (answer) => answer.pagination?.total_count === 3,
  )
  const first = await world.explain({ ref: 'own_0' })
  const other = await world.explain({ ref: first.also?.[0]?.handle ?? '' })
  const told = [first, other].map(({ reason, upstreams }) => [reason, upstreams.map(({ id }) => id)])
  t.same(told.sort(), [north, south].map(({ name }) => ['present', [name]]).sort())
  t.match(first.also, [{ upstream: other.upstreams[0]?.id, handle: other.signal?.handle }])
  for (const ref of ['own_1', other.ref]) t.notOk('also' in (await world.explain({ ref })), ref)
})

test('of an upstream that calls everything the same so many are named, and no more', async (t) => {
  const rows = Array.from({ length: 500 }, (_, n) => ({
    ...listing(`s${n}`),
    signal_agent_segment_id: 'same',
  }))
  t.equal((await signalsOfSegment([sliceOf('northwind', rows)], 'same')).length, 20)
})
