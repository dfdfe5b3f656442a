/**
 * Reads the other processes' notes (notes.ts): at once when the database notifies, and within a second when it could not.
 */
import type { Clock } from '../../net/clock.js'
import type { Lease } from './leases.js'
import type { Notes } from './notes.js'

const LOOK_EVERY_MS = 1_000
const FORGET_EVERY_MS = 60 * 60 * 1_000

type BoardOptions = {
  notes: Notes
  /** Calls back whenever there may be new notes. Returns a function that stops it. */
  listen(onNews: () => void): () => Promise<void>
  clock: Clock
  /** Receives what an operator should know. */
  onProblem(problem: string): void
}

/** The age of a note is by the database's clock. */
type Hear = (name: string, value: unknown, ageMs: number) => void

/** It hears nothing before `start`, and repeats nothing for listeners that come later. */
export function createBoard({ notes, listen, clock, onProblem }: BoardOptions) {
  const listeners: { prefix: string; listener: Hear }[] = []
  let last = 0
  let isLost = false
  let closed = false
  let looking: Promise<void> | undefined
  let again = false
  let forgottenAt = 0
  let cancelLook = () => {}
  let stopListening = async () => {}

  function trouble(error: unknown): void {
    if (!isLost) onProblem(`other replicas cannot be heard: ${(error as Error).message}`)
    isLost = true
  }

  async function look(): Promise<void> {
    const fresh = await notes.since(last)
    isLost = false
    if (closed) return
    for (const { name, seq, value, ageMs } of fresh) {
      last = seq
      for (const { prefix, listener } of listeners) if (name.startsWith(prefix)) listener(name, value, ageMs)
    }
    if (forgottenAt + FORGET_EVERY_MS > clock.now()) return
    forgottenAt = clock.now()
    await notes.forgetOld()
  }

  /** Reads now, or once more after a reading that has begun; resolves when that is done. */
  async function round(): Promise<void> {
    if (closed) return
    if (looking) {
      again = true
      return looking
    }
    cancelLook()
    looking = (async () => {
      do {
        again = false
        await look().catch(trouble)
      } while (again && !closed)
    })()
    await looking
    looking = undefined
    if (!closed) cancelLook = clock.after(LOOK_EVERY_MS, () => void round())
  }

  return {
    async tell(name: string, value: unknown, lease?: Lease): Promise<boolean> {
      try {
        return await notes.tell(name, value, lease)
      } catch (error) {
        trouble(error)
        return false
      }
    },
    hear(prefix: string, listener: Hear): void {
      listeners.push({ prefix, listener })
    },
    /** Reads from now on; resolves when all earlier notes are read. */
    async start(): Promise<void> {
      stopListening = listen(() => void round())
      await round()
    },
    async close(): Promise<void> {
      closed = true
      cancelLook()
      await stopListening()
      await looking
    },
  }
}
