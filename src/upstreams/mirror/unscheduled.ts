/**
 * Readings besides the scheduled ones: when one begins that somebody asked for, and which have to be complete. A scope that
 * another process reads: what that process saves is loaded, and requests for an early reading are passed on to it.
 */
import type { Clock } from '../../net/clock.js'
import type { UpstreamStatus } from '../agent/agent.js'
import type { HeldSlice, MirrorOutcome } from './mirror.js'
import type { Hurry, Reading, Readings } from './readings.js'
import type { Key } from './scope-setting.js'
import type { SliceStore } from './slice-store.js'

const EVERY_MS = 1_000
/**
 * When readings are asked for within a minute of each other, from the second on they may take a tenth of the time, or
 * begin once a minute.
 */
const REST = 9
const MOST_REST_MS = 60_000

/**
 * When a reading begins that somebody asked for: at once, or later when there was another just before. When callers activate
 * much, or providers' files change all the time, a complete reading after each change would cost more than it brings.
 */
export function createHurry(clock: Clock) {
  let dueAt = Number.NEGATIVE_INFINITY // of the latest request
  let restUntil = Number.NEGATIVE_INFINITY
  let endedAt = Number.NEGATIVE_INFINITY // of the latest such reading

  return {
    /** When the requested reading is due; undefined when one that is already coming serves as well. */
    asked(): number | undefined {
      const now = clock.now()
      if (dueAt > now && dueAt <= now + EVERY_MS + MOST_REST_MS) return undefined
      dueAt = Math.max(now, Math.min(dueAt, now) + EVERY_MS, restUntil)
      return dueAt
    },
    /** When the reading that an operator orders is due: now, whatever was asked for before. */
    ordered(): number {
      restUntil = Number.NEGATIVE_INFINITY
      dueAt = clock.now()
      return dueAt
    },
    /** When the latest that was asked for may begin. */
    dueAt: () => Math.max(dueAt, restUntil),
    /** One that was asked for has been made, and took so long. */
    made(tookMs: number): void {
      const now = clock.now()
      if (now - endedAt < MOST_REST_MS) restUntil = now + Math.min(REST * tookMs, MOST_REST_MS)
      endedAt = now
    },
  }
}

type WholeReadingOptions = {
  store: Pick<SliceStore, 'distrust' | 'trust'>
  key(): Key
}

/**
 * Complete readings, whatever a token says: needed when a page contradicts its token, or when an operator asks. A request stands
 * until a reading has succeeded that began after it, in this process or another.
 */
export function createWholeReading({ store, key }: WholeReadingOptions) {
  let calls = 0
  let answered = 0

  function call(): void {
    calls += 1
    store.distrust(key())
  }

  /** Runs one reading; `refresh` is told whether it must be complete. */
  async function read(refresh: (whole: boolean) => Promise<MirrorOutcome>): Promise<MirrorOutcome> {
    const known = calls
    const outcome = await refresh(known > answered)
    if (outcome.kind === 'failed') {
      if (outcome.contradicted) call()
      return outcome
    }
    answered = known
    if (answered === calls) store.trust(key())
    return outcome
  }

  return { call, read }
}

/** How a scope stands with whoever reads it. */
type Standing = {
  answered: boolean
  failures: number
  problem: UpstreamStatus['problem']
  nextAttemptAt: number | undefined
}

type FollowingOptions = {
  key(): Key
  store: Pick<SliceStore, 'follows'>
  readings: Readings
  /** Whether this process reads the scope itself: it then knows its own findings. */
  isReader(): boolean
  /** What is saved. Never rejects. */
  load(): Promise<HeldSlice | undefined>
  held(): HeldSlice | undefined
  take(standing: Standing, held: HeldSlice | undefined): void
  hurry: Readonly<Record<Hurry, () => void>>
}

/** Listens from now on, and loads rows when another process has saved some. */
export function createFollowing(options: FollowingOptions) {
  const { key, store, readings, isReader, load, held } = options
  let mark: string | undefined // names what another process saved and this one holds or is loading
  let loading: Promise<void> = Promise.resolve()

  async function loadMarked(wanted: string, confirmedAt: number, standing: Standing): Promise<void> {
    const saved = await load()
    if (mark !== wanted || isReader()) return
    if (!saved) {
      mark = undefined // the next message about it tries again
      return
    }
    store.follows(key(), wanted)
    options.take(standing, { ...saved, confirmedAt })
  }

  function take({ slice, confirmedAt, ...told }: Reading): void {
    if (isReader()) return
    const { answered, failures, problem, nextAttemptAt } = told
    const standing = { answered, failures, problem, nextAttemptAt }
    const now = held()
    if (!now) mark = undefined
    if (confirmedAt === undefined) {
      options.take(standing, undefined)
      return
    }
    // Until its rows are loaded, this process cannot confirm them.
    if (now) options.take(standing, { ...now, confirmedAt: Math.max(now.confirmedAt, confirmedAt) })
    if (slice === undefined || slice === mark) return
    mark = slice
    loading = loading.then(() => loadMarked(slice, confirmedAt, standing))
  }

  const stopHearing = readings.hear(key(), {
    read: take,
    hurry(how) {
      if (isReader()) options.hurry[how]()
    },
  })

  return {
    take,
    /** Stops listening; resolves when nothing is being loaded. */
    async close(): Promise<void> {
      stopHearing()
      await loading
    },
  }
}
