/**
 * What processes tell each other about the scopes that they read: the outcome of the last reading, and which rows were
 * saved. Their clocks may differ, so times are sent as distances from now.
 */
import type { Clock } from '../../net/clock.js'
import { createRecent } from '../../process/memory.js'
import type { UpstreamStatus } from '../agent/agent.js'
import type { Sharing, Turn } from '../rows/storage.js'
import type { Key } from './scope-setting.js'

/** The state of a scope at the process that reads it. Instants are on this process's clock, ms since the epoch. */
export type Reading = {
  answered: boolean
  failures: number
  problem?: UpstreamStatus['problem']
  nextAttemptAt?: number
  /** When what is held was last confirmed; absent when nothing is held. */
  confirmedAt?: number
  /** Names what was saved last; absent when nothing is held. */
  slice?: string
  /** Its tokens are not believed: it must be read completely. */
  distrusted?: boolean
}

/** How soon a scope is to be read again. */
export type Hurry = 'soon' | 'whole'

type Told = Omit<Reading, 'nextAttemptAt' | 'confirmedAt'> & { nextInMs?: number; confirmedMsAgo?: number }

const READING = 'reading/'
const HURRY = 'hurry/'
const HURRY_HEARD_MS = 30_000 // a process that starts also hears older requests; they have been carried out

/** Failures that may be of this process's own way to the agent. */
const OUT_OF_REACH: ReadonlySet<string> = new Set(['unresolvable', 'unreachable', 'timeout'])
const TRIES = 2 // before another process tries

const isOutOfReach = ({ failures, problem }: Reading) =>
  failures >= TRIES && problem !== undefined && OUT_OF_REACH.has(problem.reason)

const placeOf = ({ agentUrl, scope }: Key) => `${encodeURIComponent(scope)}/${agentUrl}`

/** The name of the right to read an agent (canonical url), which one process has at a time. */
export const turnOf = (agentUrl: string) => `mirror/${agentUrl}`

type ReadingsOptions = { sharing: Sharing | undefined; clock: Clock }

export type Readings = ReturnType<typeof createReadings>

const MOST_HEARD = 200_000 // scopes of all agents: of one that is dropped here, the next message tells

/** `sharing`: undefined when this process is alone; then nothing is told. */
export function createReadings({ sharing, clock }: ReadingsOptions) {
  const heard = createRecent<Reading>(MOST_HEARD) // by scope and agent
  const listeners = new Map<string, { read(reading: Reading): void; hurry(how: Hurry): void }>()

  sharing?.hear(READING, (name, value, ageMs) => {
    const { nextInMs, confirmedMsAgo, ...rest } = value as Told
    const toldAt = clock.now() - ageMs
    const reading = {
      ...rest,
      ...(nextInMs !== undefined && { nextAttemptAt: toldAt + nextInMs }),
      ...(confirmedMsAgo !== undefined && { confirmedAt: toldAt - confirmedMsAgo }),
    }
    const place = name.slice(READING.length)
    heard.set(place, reading)
    listeners.get(place)?.read(reading)
  })
  sharing?.hear(HURRY, (name, value, ageMs) => {
    if (ageMs < HURRY_HEARD_MS) listeners.get(name.slice(HURRY.length))?.hurry(value as Hurry)
  })

  return {
    /** The last message of another process. */
    of: (key: Key): Reading | undefined => heard.get(placeOf(key)),
    /** Receives messages about this scope from now on. Returns a function that stops it. */
    hear(key: Key, listener: { read(reading: Reading): void; hurry(how: Hurry): void }): () => void {
      const place = placeOf(key)
      listeners.set(place, listener)
      return () => {
        if (listeners.get(place) === listener) listeners.delete(place)
      }
    },
    /** Also leaves the scope to another process when the agent seems to be out of reach from here. */
    async tell(key: Key, reading: Reading, turn: Turn): Promise<void> {
      const { nextAttemptAt, confirmedAt, ...rest } = reading
      const now = clock.now()
      const told: Told = {
        ...rest,
        ...(nextAttemptAt !== undefined && { nextInMs: nextAttemptAt - now }),
        ...(confirmedAt !== undefined && { confirmedMsAgo: now - confirmedAt }),
      }
      await sharing?.tell(`${READING}${placeOf(key)}`, told, turn)
      if (isOutOfReach(reading)) await sharing?.pass(turn.name)
    },
    /** Asks the process that reads the scope to read it again. */
    ask: (key: Key, how: Hurry): void => void sharing?.tell(`${HURRY}${placeOf(key)}`, how),
  }
}
