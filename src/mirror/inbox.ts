/**
 * Where what an agent notified waits until it is part of the copy (catching-up.ts). It need not be durable: what is lost with it is
 * read with the feed.
 */
import type { Step } from './steps.js'

/** Bounds of the inbox: beyond them all steps are dropped, and the feed is read. */
const MOST_STEPS = 2_000
const MOST_STEP_BYTES = 16 * 2 ** 20

/** An empty inbox. */
export function createInbox() {
  let steps: { step: Step; bytes: number }[] = []
  let rung = 0
  let isToBeRead = false
  let bell = new AbortController()

  function wake(): void {
    rung += 1
    bell.abort()
    bell = new AbortController()
  }

  return {
    put(step: Step, bytes: number): void {
      const held = steps.reduce((sum, one) => sum + one.bytes, bytes)
      if (steps.length >= MOST_STEPS || held > MOST_STEP_BYTES) steps = []
      steps.push({ step, bytes })
      wake()
    },
    /** Something changed, and it is not known what. */
    ring(): void {
      isToBeRead = true
      wake()
    },
    steps: (): readonly Step[] => steps.map(({ step }) => step),
    /** Whether the copy may be behind what was told. */
    isWaiting: () => isToBeRead || steps.length > 0,
    /** How often it was woken; `next` aborts the next time that it is. */
    rung: () => rung,
    next: (): AbortSignal => bell.signal,
    /** The copy is being read: what was told so far will be part of it. */
    reading(): readonly Step[] {
      isToBeRead = false
      return steps.map(({ step }) => step)
    },
    /** These are part of the copy. */
    taken(done: readonly Step[]): void {
      steps = steps.filter(({ step }) => !done.includes(step))
    },
  }
}

export type Inbox = ReturnType<typeof createInbox>
