/** Processes on one database have its time, whatever their own clocks say. */
import { test } from 'tap'
import { createSharedTime } from '../../src/net/clock.js'
import { createManualClock } from '../support/upstream-clock.js'
import { onEveryStorage } from './support/storages.js'

const HOUR_MS = 3_600_000

test('a clock that is an hour wrong is set right, and again when it is moved', async (t) => {
  const { clock: own, advance } = createManualClock()
  let wrongBy = HOUR_MS
  const problems: string[] = []
  const time = createSharedTime({ own, onProblem: (problem) => void problems.push(problem) })
  t.teardown(time.close)
  const theirs = async () => own.now() - wrongBy
  await time.follow(theirs)
  t.equal(time.clock.now(), await theirs())
  wrongBy = -HOUR_MS
  advance(10_000)
  await new Promise(setImmediate)
  t.equal(time.clock.now(), await theirs(), 'after the next look')
  t.match(problems, [/ 3600000 ms ahead of the database's/, / 3600000 ms behind the database's/])
  t.equal(problems.length, 2)
})

test('a clock that is kept in step stays as it is, however long an answer takes', async (t) => {
  const { clock: own, advance } = createManualClock()
  const time = createSharedTime({ own, onProblem: t.fail })
  t.teardown(time.close)
  await time.follow(async () => own.now() + 900)
  t.equal(time.clock.now(), own.now())
  await time.follow(async () => {
    advance(20_000)
    return own.now()
  })
  t.equal(time.clock.now(), own.now())
})

onEveryStorage('a storage that processes share says its time', async (t, storage) => {
  const store = await storage.open()
  const now = await store.replicas?.now()
  t.equal(now !== undefined, storage.isShared)
  t.ok(now === undefined || Math.abs(now - Date.now()) < 60_000)
})
