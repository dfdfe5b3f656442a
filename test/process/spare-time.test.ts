import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'tap'
import { createSpareTime } from '../../src/process/portions.js'
import { createManualClock } from '../support/upstream-clock.js'

/** A thread whose pieces take so long, under a clock that the test moves; the rest of its time it is idle, or busy with others. */
function startThread({ pieceMs, isBusy }: { pieceMs: number; isBusy: boolean }) {
  const { clock, advance } = createManualClock()
  const time = { idle: 0, active: 0 }
  const spareTime = createSpareTime({ after: clock.after, spent: () => ({ ...time }) })
  let begun = 0

  function ask(pieces: number): Promise<unknown> {
    const asked = Array.from({ length: pieces }, async () => {
      await spareTime.next()
      begun += 1
      time.active += pieceMs
    })
    return Promise.all(asked)
  }

  /** A piece begins in one turn at most, so all that may begin have begun after so many turns. */
  async function settle(): Promise<void> {
    for (let turn = 0; turn < 60; turn += 1) await nextTurn()
  }

  async function pass(ms: number): Promise<void> {
    for (let gone = 0; gone < ms; gone += 1) {
      time[isBusy ? 'active' : 'idle'] += 1
      advance(1)
      await nextTurn()
      await nextTurn()
    }
    await settle()
  }

  return { ask, settle, pass, close: spareTime.close, begun: () => begun }
}

test('a few pieces of work wait for nothing', async (t) => {
  const thread = startThread({ pieceMs: 1, isBusy: false })
  await thread.ask(5) // the clock stands still
  t.equal(thread.begun(), 5)
})

test('many pieces leave the thread idle for six sevenths of its time', async (t) => {
  const thread = startThread({ pieceMs: 1, isBusy: false })
  void thread.ask(1_000)
  await thread.settle()
  t.ok(thread.begun() <= 7, `${thread.begun()} at once`)
  const before = thread.begun()
  await thread.pass(400)
  const begun = thread.begun() - before
  t.ok(begun >= 45 && begun <= 72, `${begun} pieces of 1 ms in 400 ms idle`)
})

test('pieces that cost little are as many more', async (t) => {
  const thread = startThread({ pieceMs: 0.1, isBusy: false })
  void thread.ask(2_000)
  await thread.settle()
  const before = thread.begun()
  await thread.pass(100)
  t.ok(thread.begun() - before >= 120, `${thread.begun() - before} pieces of 0.1 ms in 100 ms idle`)
})

test('a thread that is never idle begins some all the same', async (t) => {
  const thread = startThread({ pieceMs: 1, isBusy: true })
  void thread.ask(1_000)
  await thread.settle()
  const before = thread.begun()
  await thread.pass(600)
  const begun = thread.begun() - before
  t.ok(begun >= 80 && begun <= 110, `${begun} pieces in 600 ms`)
})

test('what was not done while nobody asked is not made up for', async (t) => {
  const thread = startThread({ pieceMs: 1, isBusy: false })
  await thread.pass(500)
  void thread.ask(100)
  await thread.settle()
  t.ok(thread.begun() <= 7, `${thread.begun()} at once`)
})

test('once it is closed, nobody waits', async (t) => {
  const thread = startThread({ pieceMs: 1, isBusy: true })
  const all = thread.ask(100)
  await thread.settle()
  thread.close()
  await all
  t.equal(thread.begun(), 100)
  await thread.ask(1)
})
