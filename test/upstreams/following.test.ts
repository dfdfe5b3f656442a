/** A scope that another process reads: its word counts here from when its rows are here. */
import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import type { HeldSlice } from '../../src/upstreams/mirror/mirror.js'
import { createFollowing, createReadings, type Readings } from '../../src/upstreams/mirror/readings.js'
import { createSliceStore } from '../../src/upstreams/mirror/slice-store.js'
import { createPassingBlobs, type Hear, type Sharing } from '../../src/upstreams/rows/storage.js'
import { createManualClock } from '../support/upstream-clock.js'

const AGENT = 'https://agent.example/mcp'
const TURN = { name: 'mirror', epoch: 1 }
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

function follow(
  load: () => Promise<HeldSlice | undefined>,
  readings: Readings = createReadings({ sharing: undefined, clock: systemClock }),
  before?: HeldSlice,
  clock = systemClock,
) {
  const taken: [answered: boolean, confirmedAt: number | undefined][] = []
  const reader = { is: false }
  let held: HeldSlice | undefined = before
  let loads = 0
  const following = createFollowing({
    key: () => ({ agentUrl: AGENT, scope: 'public' }),
    store: { follows() {} },
    ...{ readings, clock, random: () => 1 },
    turn: () => (reader.is ? TURN : undefined),
    load() {
      loads += 1
      return load()
    },
    held: () => held,
    take(standing, next) {
      held = next
      taken.push([standing.answered, next?.confirmedAt])
    },
    hurry: { soon() {}, whole() {} },
  })
  const lost = ({ slice }: HeldSlice, mark?: string) => readings.lost(slice, TURN, mark)
  return { ...following, lost, taken, reader, loads: () => loads }
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

test('nor is it forgotten when this process reads in vain: its own reading tries again', async (t) => {
  let isThere = false
  const { take, taken, reader, settled, close } = follow(async () => (isThere ? saved : undefined))
  take(told)
  await close()
  reader.is = true
  settled(TURN, false)
  await close()
  t.same(taken, [])
  isThere = true
  settled(TURN, false)
  await close()
  t.same(taken, [[true, 5]])
  settled(TURN, true)
  take(told)
  await close()
  t.same(taken, [[true, 5]], 'once it has read, it knows better')
})

/** One that cannot load for now, on a clock that stands still until it is moved. */
function inVain() {
  const storage = { isThere: false }
  const { clock, next, advance } = createManualClock()
  const readings = createReadings({ sharing: undefined, clock })
  const following = follow(async () => (storage.isThere ? saved : undefined), readings, undefined, clock)
  const pass = async (ms: number) => {
    advance(ms)
    await new Promise(setImmediate)
  }
  return { ...following, storage, next, pass }
}

test('rows that cannot be had are tried again without another word of them, soon and then seldom', async (t) => {
  const { take, taken, loads, storage, next, pass } = inVain()
  take(told)
  await pass(0)
  t.equal(loads(), 1)
  const waits: (number | undefined)[] = []
  for (let tries = 0; tries < 12; tries += 1) {
    waits.push(next())
    await pass(next() ?? 0)
  }
  t.equal(loads(), 13)
  t.ok((waits[0] ?? Infinity) <= 1_000, `first after ${waits[0]} ms`)
  t.equal(waits.at(-1), 60_000)
  storage.isThere = true
  await pass(60_000)
  t.same(taken, [[true, 5]])
  t.equal(next(), undefined, 'and no more once they are here')
})

test('whoever waits for what was told waits for a few tries, and tries at once', async (t) => {
  const { take, loaded, taken, storage, next, pass } = inVain()
  take(told)
  await pass(0)
  let isOver = false
  const waiting = loaded().then(() => {
    isOver = true
  })
  await pass(0)
  t.notOk(isOver)
  storage.isThere = true
  await pass(1_000)
  await waiting
  t.same(taken, [[true, 5]], 'they were there at the second look')
  storage.isThere = false
  take({ ...told, slice: '1.2' })
  await pass(0)
  const again = loaded()
  for (let tries = 0; tries < 12; tries += 1) await pass(next() ?? 0)
  await again
  t.equal(taken.length, 2, 'nobody waits for ever')
})

test('what is let go, or nobody follows any more, is not tried again', async (t) => {
  const { take, forget, next, loads, pass, close } = inVain()
  take(told)
  await pass(0)
  forget()
  await pass(60_000)
  await pass(60_000)
  t.equal(loads(), 1)
  t.equal(next(), undefined)
  take(told)
  await pass(0)
  await close()
  t.equal(next(), undefined)
})

test('what holds nothing is told of at once', (t) => {
  const { take, taken } = follow(async () => undefined)
  take({ answered: true, failures: 1 })
  t.same(taken, [[true, undefined]])
  t.end()
})

/** Rows that are loaded, counted. */
function counted() {
  let loads = 0
  return {
    loads: () => loads,
    load: async () => {
      loads += 1
      return saved
    },
  }
}

test('rows are loaded once, however often they are told of meanwhile', async (t) => {
  const { load, loads } = counted()
  const { take, taken, close } = follow(load)
  for (const confirmedAt of [5, 6, 7]) take({ ...told, confirmedAt })
  await close()
  t.equal(loads(), 1)
  t.same(taken, [[true, 7]], 'with what was told of them last')
})

test('rows that their reader let go while they were loaded are not taken', async (t) => {
  const { take, taken, close } = follow(async () => saved)
  take(told)
  take({ answered: true, failures: 3 })
  await close()
  t.same(taken, [[true, undefined]])
})

test('rows that a start has read are not loaded again, until they are let go', async (t) => {
  const { load, loads } = counted()
  const { begin, forget, take, close } = follow(load)
  begin('1.1')
  take(told)
  await close()
  t.equal(loads(), 0)
  take({ ...told, slice: '1.2' })
  await close()
  t.equal(loads(), 1)
  forget()
  take({ ...told, slice: '1.2' })
  await close()
  t.equal(loads(), 2)
})

test('nothing is loaded before a start has read what is there', async (t) => {
  let say = (_reading: object) => {}
  const sharing = {
    hear(prefix: string, listener: (name: string, value: unknown, ageMs: number) => void) {
      if (prefix === 'reading/') say = (reading) => listener(`reading/public/${AGENT}`, reading, 0)
    },
  } as unknown as Sharing
  const { load, loads } = counted()
  const following = follow(load, createReadings({ sharing, clock: systemClock }))
  say({ answered: true, failures: 0, confirmedMsAgo: 1, slice: '1.1' })
  await following.close()
  t.equal(loads(), 0)
  following.begin(undefined)
  say({ answered: true, failures: 0, confirmedMsAgo: 1, slice: '1.1' })
  await following.close()
  t.equal(loads(), 1)
})

test('rows that come while this process gets the turn are taken until it has read some itself', async (t) => {
  const { take, taken, settled, reader, close } = follow(async () => saved)
  take(told)
  reader.is = true
  await close()
  t.same(taken, [[true, 5]], 'it may build from them at once')
  take({ ...told, slice: '1.2' })
  settled(TURN, true)
  take({ ...told, slice: '1.3' })
  await close()
  t.equal(taken.length, 2, 'the second is of the word before it has read')
  reader.is = false
  take({ ...told, slice: '1.3', confirmedAt: 7 })
  await close()
  t.same(taken.at(-1), [true, 7])
})

test('rows are taken also where others are saved before they are loaded', async (t) => {
  let found = () => {}
  const { take, taken, close } = follow(() => new Promise((resolve) => (found = () => resolve(saved))))
  for (const at of [1, 2, 3]) {
    take({ ...told, slice: `1.${at}` })
    if (at === 1) continue // the first is being loaded
    await new Promise(setImmediate)
    found()
    await new Promise(setImmediate)
    t.ok(taken.length > 0, 'something of them is shown')
  }
  found()
  await close()
  t.same(taken.at(-1), [true, 5])
})

test('rows are not taken in the place of newer ones that this process read before it lost the turn', async (t) => {
  const newer = { ...saved, slice: { ...slice, walkedAt: 6 }, confirmedAt: 6 }
  const { take, taken, loads, close } = follow(async () => saved, undefined, newer)
  take(told)
  await close()
  t.equal(loads(), 0)
  t.same(taken, [[true, 6]], 'how the agent is doing counts')
  take({ ...told, confirmedAt: 7 })
  await close()
  t.equal(loads(), 1, 'whoever has the turn found the earlier rows after that')
})

test('rows that were read in a turn that was over before they were saved give way to those that are', async (t) => {
  const own = { ...saved, slice: { ...slice, rows: { ...slice.rows }, walkedAt: 6 }, confirmedAt: 6 }
  const one = follow(async () => saved, undefined, own)
  one.begin(undefined)
  one.reader.is = true
  one.settled(TURN, true)
  one.lost(saved, '1.1')
  t.equal(one.loads(), 0, 'others are held by now')
  one.lost(own, '1.1')
  await one.close()
  t.equal(one.loads(), 1)
  t.same(one.taken, [[false, 6]])
  t.notOk(one.hasRead(), 'what others say counts from now on')
  const none = follow(async () => undefined, undefined, own)
  none.begin(undefined)
  none.lost(own)
  t.same(none.taken, [[false, undefined]], 'nothing was ever saved')
  await none.close()
})

test('rows that could not be saved confirm none of those that were, here or after a restart', async (t) => {
  const blobs = createPassingBlobs()
  const key = { agentUrl: AGENT, scope: 'public' }
  const [owner, turn] = [{ credential: 'none' }, { name: 'mirror', epoch: 1 }]
  let isFull = false
  let hear: Hear = () => {}
  const sharing = {
    hear(prefix: string, listener: Hear) {
      if (prefix === 'reading/') hear = listener
    },
    async tell(name: string, value: unknown) {
      hear(name, value, 0, 1)
      return true
    },
    async write(name: string, parts: readonly Uint8Array[]) {
      if (isFull) throw new Error('no space left on device')
      await blobs.write(name, parts)
      return true
    },
  } as unknown as Sharing
  const clock = { ...systemClock, now: () => 1_000 }
  const readings = createReadings({ sharing, clock })
  const open = () => createSliceStore({ blobs, clock, shared: { sharing, readings }, onTrouble: () => {} })
  const reader = open()
  const saveAt = async (confirmedAt: number) => {
    reader.save({ ...saved, confirmedAt }, owner, turn)
    reader.report(key, { answered: true, failures: 0, confirmedAt }, turn)
    await reader.close()
  }
  await saveAt(10)
  const mark = readings.of(key)?.slice
  isFull = true
  await saveAt(500)
  t.match(readings.of(key), { slice: mark, confirmedAt: 10 }, 'of what others can load')
  t.equal((await open().load(key, owner))?.confirmedAt, 10)
  isFull = false
  await saveAt(600)
  t.match(readings.of(key), { confirmedAt: 600 })
  t.equal((await open().load(key, owner))?.confirmedAt, 600)
})
