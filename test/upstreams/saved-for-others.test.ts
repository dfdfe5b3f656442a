/** What the process that reads a scope saves, and what it tells the others of it, while writing takes long or its turn ends. */
import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import type { HeldSlice } from '../../src/upstreams/mirror/mirror.js'
import { createReadings } from '../../src/upstreams/mirror/readings.js'
import { createSliceStore } from '../../src/upstreams/mirror/slice-store.js'
import { createPassingBlobs, type Sharing } from '../../src/upstreams/rows/storage.js'
import { OTHERS_TURNS } from '../support/others-turns.js'
import { createManualClock } from '../support/upstream-clock.js'

const AGENT = 'https://agent.example/mcp'
const KEY = { agentUrl: AGENT, scope: 'public' }
const OWNER = { credential: 'none' }
const rows = {
  count: 0,
  chunks: [],
  chunkOf: new Uint16Array(),
  start: new Uint32Array(),
  length: new Uint32Array(),
}
const read = (confirmedAt: number): HeldSlice => ({
  slice: {
    ...{ upstream: 'a', agentUrl: AGENT, scope: 'public', mode: 'wholesale', walkedAt: confirmedAt },
    ...{ dropped: {}, rows, digests: new BigUint64Array() },
  },
  domains: [],
  confirmedAt,
})
const turnOf = (epoch: number) => ({ name: `mirror/${AGENT}`, epoch })

/** A storage whose writes end when the test says so, and whether they stand. */
function opened() {
  const writing: ((stands: boolean) => void)[] = []
  const told: unknown[] = []
  let writes = 0
  const sharing: Sharing = {
    ...OTHERS_TURNS,
    turn: () => turnOf(1),
    async tell(_name, value) {
      told.push((value as { slice?: string }).slice)
      return true
    },
    write() {
      writes += 1
      return new Promise((resolve) => writing.push(resolve))
    },
  }
  const readings = createReadings({ sharing, clock: systemClock })
  const store = createSliceStore({
    ...{ blobs: createPassingBlobs(), clock: systemClock, shared: { sharing, readings } },
    onTrouble: () => {},
  })
  const steps = async () => {
    for (let step = 0; step < 5; step += 1) await new Promise(setImmediate)
  }
  return {
    ...{ store, told, writes: () => writes },
    report: (confirmedAt: number) =>
      store.report(KEY, { answered: true, failures: 0, confirmedAt }, turnOf(1)),
    async written(stands = true): Promise<void> {
      await steps()
      writing.shift()?.(stands)
      await steps()
    },
  }
}

test('others are told of rows that were saved, also where the next come before these are written', async (t) => {
  const { store, told, report, written } = opened()
  for (let reading = 1; reading <= 6; reading += 1) {
    store.save(read(reading), OWNER, turnOf(1))
    report(reading)
    if (reading > 1) await written() // there is always one more to write
  }
  t.match(told[0], /^1\.\d$/)
  t.ok(told.length >= 2, `told ${told.length} times`)
})

test('what is being written is not written again because it was confirmed', async (t) => {
  const { store, writes, written } = opened()
  store.save(read(1), OWNER, turnOf(1))
  for (let reading = 2; reading < 5; reading += 1) store.confirm(read(reading), OWNER, turnOf(1))
  await written()
  await written()
  t.equal(writes(), 1)
  store.confirm(read(5), OWNER, turnOf(1))
  t.equal(writes(), 1)
})

test('rows that were not written because the turn was over are written when it is had again', async (t) => {
  const { store, told, writes, report, written } = opened()
  store.save(read(1), OWNER, turnOf(1))
  await written(false)
  store.confirm(read(2), OWNER, turnOf(2))
  report(2)
  await written()
  t.equal(writes(), 2)
  t.match(told, [/^2\.\d$/])
})

test('rows that nobody else can find are known as such, until they or newer ones are saved', async (t) => {
  const { store, written } = opened()
  const areFound = async (at: number, stands: boolean) => {
    const answer = store.areFound([read(at).slice])
    await written(stands)
    return await answer
  }
  store.save(read(1), OWNER, turnOf(1))
  t.notOk(await areFound(1, false), 'the turn is over')
  t.notOk(await areFound(1, false), 'tried again, in vain')
  store.save(read(2), OWNER, turnOf(2))
  t.ok(await areFound(1, true), 'newer ones')
  t.ok(await store.areFound([read(2).slice]))
  store.save(read(3), OWNER, turnOf(2))
  await written(false)
  store.follows(KEY, '3.1', 2)
  t.ok(await store.areFound([read(2).slice]), 'of another process')
})

test('what another process has saved is saved once in a turn, under the mark by which all know it', async (t) => {
  const { store, told, writes, report, written } = opened()
  store.save(read(1), OWNER, turnOf(1))
  await written(false)
  store.follows(KEY, '2.1', 1)
  for (const reading of [2, 3]) {
    store.confirm(read(reading), OWNER, turnOf(3))
    report(reading)
    await written()
    t.equal(writes(), 2, 'it may have been lost with the turns before')
  }
  t.same(told, ['2.1', '2.1'], 'nobody loads it again')
})

/** One whose storage can refuse everything, on a clock that stands still until it is moved. */
function refusing() {
  const { clock, next, advance } = createManualClock()
  const state = { refuses: false, isDeaf: false, epoch: 1 }
  const told: unknown[] = []
  let writes = 0
  const sharing: Sharing = {
    ...OTHERS_TURNS,
    turn: () => turnOf(state.epoch),
    async tell(_name, value) {
      if (state.refuses || state.isDeaf) return false
      told.push(value)
      return true
    },
    async write() {
      writes += 1
      if (state.refuses) throw new Error('the database system is shutting down')
      return true
    },
  }
  const readings = createReadings({ sharing, clock })
  const store = createSliceStore({
    ...{ blobs: createPassingBlobs(), clock, shared: { sharing, readings } },
    onTrouble: () => {},
  })
  const pass = async (ms: number) => {
    advance(ms)
    for (let step = 0; step < 5; step += 1) await new Promise(setImmediate)
  }
  const read1 = async (confirmedAt: number) => {
    store.save(read(confirmedAt), OWNER, turnOf(1))
    store.report(KEY, { answered: true, failures: 0, confirmedAt }, turnOf(1))
    await pass(0)
  }
  return { ...{ store, state, told, next, pass }, reads: read1, writes: () => writes }
}

test('rows that could not be saved are saved before the next reading, and told of', async (t) => {
  const { state, told, reads, writes, next, pass } = refusing()
  state.refuses = true
  await reads(1)
  for (let tries = 0; tries < 9; tries += 1) await pass(next() ?? 0)
  t.equal(next(), 60_000, 'seldom, where it goes on')
  state.refuses = false
  const before = writes()
  await pass(60_000)
  t.equal(writes(), before + 1)
  t.match(told, [{ slice: /^1\.\d+$/ }])
  t.equal(next(), undefined)
})

test('nor is what could not be told forgotten', async (t) => {
  const { state, told, reads, writes, pass, next } = refusing()
  state.isDeaf = true
  await reads(1)
  t.same(told, [])
  state.isDeaf = false
  await pass(1_000)
  t.match(told, [{ slice: '1.1' }])
  t.equal(writes(), 1, 'its rows are there')
  t.equal(next(), undefined)
})

test('a later reading says it in the place of the one before', async (t) => {
  const { state, told, reads, pass, next } = refusing()
  state.refuses = true
  await reads(1)
  state.refuses = false
  await reads(2)
  await pass(60_000)
  t.equal(told.length, 1)
  t.equal(next(), undefined)
})

test('whose turn is over tries nothing again', async (t) => {
  const { state, reads, writes, pass, next } = refusing()
  state.refuses = true
  await reads(1)
  state.epoch = 2
  await pass(60_000)
  t.equal(writes(), 1)
  t.equal(next(), undefined)
})

test('nor does one that is closed, or whose rows are gone', async (t) => {
  const { store, state, reads, next } = refusing()
  state.refuses = true
  await reads(1)
  store.remove(KEY, turnOf(1))
  t.equal(next(), undefined)
  await reads(2)
  await store.close()
  t.equal(next(), undefined)
})
