/**
 * Steps that were received and are not applied yet. They need not be durable: a step that is lost leaves a gap before the
 * next one, and then the feed is read. Their number and size are bounded; beyond that they are dropped, and the feed is
 * read.
 */
import type { Step } from './event-steps.js'

const MOST_WAITING = 2_000
const MOST_WAITING_BYTES = 16 * 2 ** 20

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
      if (steps.length >= MOST_WAITING || held > MOST_WAITING_BYTES) steps = []
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
