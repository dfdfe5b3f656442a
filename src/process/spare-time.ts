/** The time that a thread has to spare, and the work that can wait for it. */
import { performance } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Idle time for each active one. */
const REST = 10
/** Idle time that is kept for later, ms: a few pieces begin without a rest where nothing was done before. */
const SAVED_MS = 30
/** A thread that is never idle rests so long for each piece that it began. */
const LONGEST_WAIT_MS = 6
/** Pieces that begin one after the other before the thread rests: what is written for them is written once for several. */
const IN_A_ROW = 8
/** From one of them to the next, ms: whoever waits for a core meanwhile, in other threads and processes too, waits for one piece. */
const APART_MS = 1

/** A thread's time, which passes whether or not a test moves the clock of everything else. */
export type ThreadTime = {
  /** How long it waited for something to do, and how long it had something to do, ms since its start. */
  spent(): { idle: number; active: number }
  /** Calls once after so many ms. */
  after(ms: number, task: () => void): unknown
}

const THIS_THREAD: ThreadTime = {
  spent: () => performance.eventLoopUtilization(),
  after: (ms, task) => setTimeout(task, ms),
}

/**
 * The spare time of the thread that calls it, unless another is given. Pieces of work that can wait begin a few in a row, a
 * little apart, as long as the thread is idle for ten elevenths of its time: whoever else is served meets a few pieces
 * of such work and not all of it, and other threads, and other processes on the same cores, rest as well. A thread that is busy
 * anyway begins few pieces, but some (docs/decisions.md#feed-events).
 */
export function createSpareTime({ spent, after }: ThreadTime = THIS_THREAD) {
  const waiting: (() => void)[] = []
  const toBegin: (() => void)[] = []
  let last = spent()
  let spare = SAVED_MS
  let isGiving = false
  let isClosed = false

  function measure(): void {
    const now = spent()
    const more = now.idle - last.idle - REST * (now.active - last.active)
    spare = Math.max(-LONGEST_WAIT_MS * IN_A_ROW, Math.min(SAVED_MS, spare + more))
    last = now
  }

  const pause = (ms: number) => new Promise<void>((resolve) => after(ms, resolve))

  async function rest(longestMs: number): Promise<void> {
    measure()
    for (let waited = 0; spare < 0 && waited < longestMs && !isClosed; ) {
      const ms = Math.min(Math.max(1, Math.ceil(-spare)), longestMs - waited)
      await pause(ms)
      waited += ms
      measure()
    }
  }

  /** Begins a few of those that wait, or else one that makes further ones; how many. */
  async function begin(): Promise<number> {
    if (waiting.length === 0) {
      toBegin.shift()?.()
      return 1
    }
    let begun = 0
    for (; begun < IN_A_ROW && waiting.length > 0; begun += 1) {
      if (begun > 0) await pause(APART_MS)
      waiting.shift()?.()
    }
    return begun
  }

  async function give(): Promise<void> {
    let begun = 1
    while (waiting.length + toBegin.length > 0) {
      await nextTurn() // what was begun in this turn is measured
      await rest(begun * LONGEST_WAIT_MS)
      begun = await begin()
    }
    isGiving = false
  }

  async function turnIn(line: (() => void)[]): Promise<void> {
    if (isClosed) return
    await new Promise<void>((resolve) => {
      line.push(resolve)
      if (isGiving) return
      isGiving = true
      void give()
    })
  }

  return {
    /** Resolves when the next piece of work may begin, in the order of the calls. */
    next: () => turnIn(waiting),
    /** The same for work that makes further pieces: it begins when none waits, so that little is under way at a time. */
    nextToBegin: () => turnIn(toBegin),
    /** Nobody waits any more. */
    close(): void {
      isClosed = true
      for (const go of [...waiting.splice(0), ...toBegin.splice(0)]) go()
    },
  }
}

export type SpareTime = ReturnType<typeof createSpareTime>
