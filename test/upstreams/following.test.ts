/** A scope that another process reads: its word counts here from when its rows are here. */
import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import type { HeldSlice } from '../../src/upstreams/mirror/mirror.js'
import { createFollowing, createReadings } from '../../src/upstreams/mirror/readings.js'

const AGENT = 'https://agent.example/mcp'
const slice: HeldSlice['slice'] = {
  ...{ upstream: 'a', agentUrl: AGENT, scope: 'public', mode: 'wholesale', walkedAt: 1 },
  ...{ dropped: {}, refused: [] },
  rows: {
    count: 0,
    chunks: [],
    chunkOf: new Uint16Array(),
    start: new Uint32Array(),
    length: new Uint32Array(),
  },
  digests: new BigUint64Array(),
}
const saved: HeldSlice = { slice, domains: [], confirmedAt: 1 }
const told = { answered: true, failures: 0, nextAttemptAt: 9_000, confirmedAt: 5, slice: '1.1' }

function follow(load: () => Promise<HeldSlice | undefined>) {
  const taken: [answered: boolean, confirmedAt: number | undefined][] = []
  let held: HeldSlice | undefined
  const following = createFollowing({
    key: () => ({ agentUrl: AGENT, scope: 'public' }),
    store: { follows() {} },
    readings: createReadings({ sharing: undefined, clock: systemClock }),
    isReader: () => false,
    load,
    held: () => held,
    take(standing, next) {
      held = next
      taken.push([standing.answered, next?.confirmedAt])
    },
    hurry: { soon() {}, whole() {} },
  })
  return { ...following, taken }
}

test('an upstream is not taken for read and empty while its rows are being loaded', async (t) => {
  const { take, taken, close } = follow(async () => saved)
  take(told)
  t.same(taken, [], 'its rows are not here yet')
  await close()
  t.same(taken, [[true, 5]])
  take({ ...told, confirmedAt: 7 })
  t.same(taken.at(-1), [true, 7])
})

test('nor where its rows cannot be had; the next word of it tries again', async (t) => {
  let isThere = false
  const { take, taken, close } = follow(async () => (isThere ? saved : undefined))
  take(told)
  await close()
  t.same(taken, [])
  isThere = true
  take(told)
  await close()
  t.same(taken, [[true, 5]])
})

test('what holds nothing is told of at once', (t) => {
  const { take, taken } = follow(async () => undefined)
  take({ answered: true, failures: 1 })
  t.same(taken, [[true, undefined]])
  t.end()
})
