import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'tap'
import { createSpareTime } from '../../src/process/spare-time.js'
import { createManualClock } from '../support/upstream-clock.js'

/** A thread whose pieces take so long, under a clock that the test moves; the rest of its time it is idle, or busy with others. */
function startThread({ pieceMs, isBusy }: { pieceMs: number; isBusy: boolean }) {
  const { clock, advance } = createManualClock()
  const time = { idle: 0, active: 0 }
  const spareTime = createSpareTime({ after: clock.after, spent: () => ({ ...time }) })
  const { next, nextToBegin, close } = spareTime
  let begun = 0

  /** What a piece does, once it has begun. */
  function work(): void {
    begun += 1
    time.active += pieceMs
  }

  const ask = (pieces: number): Promise<unknown> =>
    Promise.all(Array.from({ length: pieces }, () => next().then(work)))

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

  return { next, nextToBegin, work, ask, settle, pass, close, begun: () => begun }
}

test('one piece of work waits for nothing, and a few a millisecond each', async (t) => {
  const thread = startThread({ pieceMs: 1, isBusy: true })
  void thread.ask(4)
  await thread.settle()
  t.equal(thread.begun(), 1, 'while the clock stands still')
  await thread.pass(3)
  t.equal(thread.begun(), 4)
})

test('many pieces leave the thread idle for ten elevenths of its time', async (t) => {
  const thread = startThread({ pieceMs: 0.5, isBusy: false })
  void thread.ask(1_000)
  await thread.settle()
  t.ok(thread.begun() <= 8, `${thread.begun()} at once`)
  const before = thread.begun()
  await thread.pass(400)
  const begun = thread.begun() - before
  t.ok(begun >= 70 && begun <= 90, `${begun} pieces of half a millisecond in 400 ms idle`)
})

test('pieces that cost little are as many more', async (t) => {
  const thread = startThread({ pieceMs: 0.1, isBusy: false })
  void thread.ask(2_000)
  await thread.settle()
  const before = thread.begun()
  await thread.pass(100)
  t.ok(thread.begun() - before >= 90, `${thread.begun() - before} pieces of 0.1 ms in 100 ms idle`)
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
  t.ok(thread.begun() <= 8, `${thread.begun()} at once`)
})

test('pieces begin eight in a row, a millisecond apart, and then the thread rests for all of them', async (t) => {
  const thread = startThread({ pieceMs: 1, isBusy: true })
  void thread.ask(80)
  await thread.pass(60) // what was saved is spent
  const begins: number[] = []
  for (let ms = 0; ms < 200; ms += 1) {
    const before = thread.begun()
    await thread.pass(1)
    t.ok(thread.begun() - before <= 1, 'one at a time')
    if (thread.begun() > before) begins.push(ms)
  }
  const pauses = begins.slice(1).map((ms, at) => ms - (begins[at] as number))
  const rests = pauses.flatMap((ms, at) => (ms > 1 ? [at] : []))
  t.same(new Set(pauses), new Set([1, 48]))
  t.same(new Set(rests.slice(1).map((at, order) => at - (rests[order] as number))), new Set([8]))
})

test('work that makes pieces begins when none waits, and in its order', async (t) => {
  const thread = startThread({ pieceMs: 1, isBusy: false })
  const begun: string[] = []
  const piece = async (name: string) => {
    await thread.next()
    begun.push(name)
    thread.work()
  }
  const maker = async (name: string) => {
    await thread.nextToBegin()
    begun.push(name)
    for (const part of [1, 2]) void piece(`${name}${part}`)
  }
  const all = [maker('a'), maker('b'), piece('x'), piece('y')]
  await thread.pass(200)
  await Promise.all(all)
  t.same(begun, ['x', 'y', 'a', 'a1', 'a2', 'b', 'b1', 'b2'])
  thread.close()
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
