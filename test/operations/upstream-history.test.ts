import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Test, test } from 'tap'
import type { Clock } from '../../src/net/clock.js'
import { createUpstreamHistory, type Sample } from '../../src/operations/upstream-history.js'
import { type Blobs, createPassingBlobs } from '../../src/upstreams/rows/storage.js'

const HOUR_MS = 3_600_000
const BLOB = 'console-history'

/** A clock that stands until it is moved; who waits is woken by hand. */
function standingClock(): Clock & { at: number; wake(): Promise<void> } {
  const due: (() => void)[] = []
  return {
    at: Date.UTC(2026, 0, 1),
    now() {
      return this.at
    },
    after(_ms, task) {
      due.push(task)
      return () => {}
    },
    async wake() {
      while (due.length === 0) await nextTurn()
      for (const task of due.splice(0)) task()
    },
  }
}

const sampleOf = (upstream: string): Sample => ({ upstream, rows: 1, published: 1, ms: 1, failing: false })

function start(t: Test, blobs: Blobs, upstreams: readonly string[]) {
  const clock = standingClock()
  const onTrouble = (message: string) => t.match(message, /not kept/)
  return {
    clock,
    history: createUpstreamHistory({ blobs, clock, samples: async () => upstreams.map(sampleOf), onTrouble }),
  }
}

test('what is kept outlives a start that is given up, and one at which it cannot be read', async (t) => {
  const blobs = createPassingBlobs()
  const first = start(t, blobs, ['one'])
  first.history.start()
  await first.clock.wake()
  await first.history.close()
  const before = await blobs.read(BLOB)
  await start(t, blobs, []).history.close()
  t.same(await blobs.read(BLOB), before)
  const unreadable = start(t, { ...blobs, read: async () => Promise.reject(new Error('no storage')) }, [
    'two',
  ])
  unreadable.history.start()
  await unreadable.clock.wake()
  await unreadable.history.close()
  t.same(await blobs.read(BLOB), before)
})

test('what could not be read at the start is read later, and kept together with what was seen meanwhile', async (t) => {
  const blobs = createPassingBlobs()
  const first = start(t, blobs, ['one', 'gone'])
  first.history.start()
  await first.clock.wake()
  await first.history.close()
  let isAway = true
  const read = (name: string) => (isAway ? Promise.reject(new Error('no storage')) : blobs.read(name))
  const { clock, history } = start(t, { ...blobs, read }, ['one', 'two'])
  clock.at += HOUR_MS
  history.start()
  await clock.wake()
  t.equal(history.of('one', 'days')?.at.length, 1)
  isAway = false
  clock.at += HOUR_MS
  await clock.wake()
  await clock.wake()
  const days = (of: typeof history) => ['one', 'two', 'gone'].map((id) => of.of(id, 'days')?.at.length)
  t.same(days(history), [3, 2, 1])
  await history.close()
  const after = start(t, blobs, [])
  after.history.start()
  await after.clock.wake()
  t.same(days(after.history), [3, 2, 1], 'it was saved')
  await after.history.close()
})

test('an hour keeps its slowest answer over a restart', async (t) => {
  const blobs = createPassingBlobs()
  const sample = { upstream: 'one', rows: 1, published: 1, failing: false }
  for (const ms of [700, undefined, 20]) {
    const clock = standingClock()
    const history = createUpstreamHistory({
      blobs,
      clock,
      samples: async () => [{ ...sample, ms }],
      onTrouble: t.fail,
    })
    history.start()
    await clock.wake()
    t.same(history.of('one', 'days')?.ms, [700])
    await history.close()
  }
})

/** As much as is ever kept of an upstream. */
function monthOf(): Uint8Array[] {
  const series = (points: number) => {
    const numbers = Array.from({ length: points }, (_, at) => [at * HOUR_MS, at, 1, 1, 0])
    return Buffer.from(Float64Array.from(numbers.flat()).buffer)
  }
  return [series(360), series(720)]
}

test('a month of many upstreams is read and written in portions, others are served in between', async (t) => {
  const ids = Array.from({ length: 100 }, (_, at) => `upstream-${at}`)
  const blobs = createPassingBlobs()
  await blobs.write(BLOB, [Buffer.from(JSON.stringify(ids)), ...ids.flatMap(monthOf)])
  const before = await blobs.read(BLOB)
  const { clock, history } = start(t, blobs, [])
  history.start()
  await clock.wake()
  t.equal(history.of('upstream-7', 'days')?.at.length, 720)
  let turns = 0
  let isOver = false
  const counting = (async () => {
    for (; !isOver; turns += 1) await nextTurn()
  })()
  await history.close()
  isOver = true
  await counting
  t.ok(turns >= 10, `${turns} turns`)
  t.ok(Buffer.concat((await blobs.read(BLOB)) ?? []).equals(Buffer.concat(before ?? [])))
})

test('an hour has failed if a refresh failed in it; the latest days are kept, and the point of an hour is one', async (t) => {
  const [blobs, clock] = [createPassingBlobs(), standingClock()]
  let failing = true
  const history = createUpstreamHistory({
    ...{ blobs, clock, onTrouble: t.fail },
    samples: async () => [{ ...sampleOf('one'), failing }],
  })
  const stored = Array.from({ length: 720 }, (_, at) => [clock.at - (720 - at) * HOUR_MS, at, 1, 1, 0])
  const days = Buffer.from(Float64Array.from(stored.flat()).buffer)
  await blobs.write(BLOB, [Buffer.from('["one"]'), Buffer.alloc(0), days])
  history.start()
  await clock.wake()
  failing = false
  await clock.wake()
  await clock.wake()
  const found = history.of('one', 'days')
  t.equal(found?.at.length, 720)
  t.same([found?.rows[0], found?.failing.at(-1)], [1, 1], 'the oldest has gone, and the failure stays')
  t.equal(history.of('one', 'hours')?.at.length, 1)
  t.equal(found?.step_seconds, 3_600)
  await history.close()
})
