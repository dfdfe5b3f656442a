/**
 * The readings of a scope: which have to be complete, and what processes that share a storage tell each other about them: the
 * outcome of the last one, which rows were saved, and who asked for an early one. A scope that another process reads follows what
 * that process saves. Requests are known to all, so that what the reader has not done when it ends is done by the next.
 */
import { backoffMs, type Clock, pause } from '../../net/clock.js'
import { createRecent } from '../../process/memory.js'
import type { Slice } from '../rows/slice.js'
import type { Sharing, Turn, Word } from '../rows/storage.js'
import type { Hurry } from './hurry.js'
import type { HeldSlice, MirrorOutcome } from './mirror.js'
import type { Key } from './scope-setting.js'
import type { UpstreamStatus } from './scope-status.js'

const READING = 'reading/'
const HURRY = 'hurry/'

/** Failures that may be of this process's own way to the agent. */
const OUT_OF_REACH: ReadonlySet<string> = new Set(['unresolvable', 'unreachable', 'timeout'])
const TRIES = 2 // before another process tries
/** Loads in vain of rows that another process saved: tried soon at first and then once in so long, unless somebody waits. */
const LOAD_EVERY_MS = 60_000
const AWAITED = { loads: 3, pauseMs: 1_000 }
const MOST_HEARD = 200_000 // scopes of all agents: of one that is dropped here, the next message tells

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
  /** The number of the latest request that it serves; absent where only rows are told of. */
  serves?: number
}

/** What a scope hears. `lost`: rows that it read could not be saved, because the turn was over; others find those of `mark`. */
type Listener = {
  read(reading: Reading): void
  hurry(how: Hurry): void
  lost(slice: Slice, under: Turn, mark: string | undefined): void
}

type Told = Omit<Reading, 'nextAttemptAt' | 'confirmedAt'> & { nextInMs?: number; confirmedMsAgo?: number }

const isOutOfReach = ({ failures, problem }: Reading) =>
  failures >= TRIES && problem !== undefined && OUT_OF_REACH.has(problem.reason)

const placeOf = ({ agentUrl, scope }: Key) => `${encodeURIComponent(scope)}/${agentUrl}`

/** The name of the right to read an agent (canonical url), which one process has at a time. */
export const turnOf = (agentUrl: string) => `mirror/${agentUrl}`

type WholeReadingOptions = {
  /** Whether the tokens of a slice are believed: told, because whoever loads it next must know. */
  store: { distrust(key: Key): void; trust(key: Key): void }
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

type ReadingsOptions = { sharing: Sharing | undefined; clock: Clock }

/**
 * What processes tell each other. Their clocks may differ, so times are sent as distances from now. `sharing`: undefined when
 * this process is alone; then nothing is told.
 */
export function createReadings({ sharing, clock }: ReadingsOptions) {
  const heard = createRecent<Reading>(MOST_HEARD) // by scope and agent
  const asked = createRecent<{ how: Hurry; order: number }>(MOST_HEARD) // the latest request
  const served = createRecent<number>(MOST_HEARD) // the latest request that a reading served
  const listeners = new Map<string, Listener>()

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
    if (rest.serves !== undefined) served.set(place, rest.serves)
    listeners.get(place)?.read(reading)
  })
  sharing?.hear(HURRY, (name, value, _ageMs, order) => {
    const place = name.slice(HURRY.length)
    const how = value as Hurry
    asked.set(place, { how, order })
    listeners.get(place)?.hurry(how)
  })

  function wordOf(key: Key, { nextAttemptAt, confirmedAt, ...rest }: Reading): Word {
    const now = clock.now()
    const value: Told = {
      ...rest,
      ...(nextAttemptAt !== undefined && { nextInMs: nextAttemptAt - now }),
      ...(confirmedAt !== undefined && { confirmedMsAgo: now - confirmedAt }),
    }
    return { name: `${READING}${placeOf(key)}`, value }
  }

  return {
    /** Resolves when what other processes said so far is heard; false when it cannot be for now. */
    heard: async (): Promise<boolean> => (await sharing?.heard()) !== false,
    wordOf,
    /** Tells the scope here that its rows could not be saved. */
    lost(slice: Slice, under: Turn, mark: string | undefined): void {
      listeners.get(placeOf(slice))?.lost(slice, under, mark)
    },
    /** The last message of another process. */
    of: (key: Key): Reading | undefined => heard.get(placeOf(key)),
    /** Receives messages about this scope from now on. Returns a function that stops it. */
    hear(key: Key, listener: Listener): () => void {
      const place = placeOf(key)
      listeners.set(place, listener)
      return () => {
        if (listeners.get(place) === listener) listeners.delete(place)
      }
    },
    /** False when it was not told. Also leaves the scope to another process when the agent seems to be out of reach from here. */
    async tell(key: Key, reading: Reading, turn: Turn): Promise<boolean> {
      const { name, value } = wordOf(key, reading)
      const isTold = await sharing?.tell(name, value, turn)
      if (isOutOfReach(reading)) await sharing?.pass(turn.name)
      return isTold !== false
    },
    /** Asks the process that reads the scope, or is the next to, to read it again. */
    ask: (key: Key, how: Hurry): void => void sharing?.tell(`${HURRY}${placeOf(key)}`, how),
    /** The number of the latest request, which a reading that begins now serves; 0: there was none. */
    asked: (key: Key): number => asked.get(placeOf(key))?.order ?? 0,
    /** What was asked for after the last reading began. Processes of an earlier release do not tell what they served. */
    missed(key: Key): Hurry | undefined {
      const [request, last] = [asked.get(placeOf(key)), served.get(placeOf(key))]
      return request && last !== undefined && last < request.order ? request.how : undefined
    },
  }
}

export type Readings = ReturnType<typeof createReadings>

/** How a scope stands with whoever reads it. */
type Standing = Pick<Reading, 'answered' | 'failures' | 'problem' | 'nextAttemptAt'>

type FollowingOptions = {
  key(): Key
  /** Told which save of another process is held here now. */
  store: { follows(key: Key, mark: string, walkedAt: number): void }
  readings: Readings
  clock: Clock
  random(): number
  /** Whether this process reads the scope itself. */
  turn(): Turn | undefined
  /** What is saved. Never rejects. */
  load(): Promise<HeldSlice | undefined>
  held(): HeldSlice | undefined
  take(standing: Standing, held: HeldSlice | undefined): void
  hurry: Readonly<Record<Hurry, () => void>>
}

/** Loads rows when another process has saved some. */
export function createFollowing(options: FollowingOptions) {
  const { key, store, readings, clock, random, turn, load, held } = options
  let mark: string | undefined // names what another process saved last
  let heldMark: string | undefined // that of the rows here
  let told: { standing: Standing; confirmedAt: number } | undefined // last, of what is held or being loaded
  let forgotten = 0
  let settledUnder: number | undefined // the turn in which this process read last
  let failures = 0 // loads in vain, one after the other
  let cancelAgain = () => {}
  let isLoading = false
  let loading: Promise<void> = Promise.resolve()

  function forget(): void {
    mark = undefined
    heldMark = undefined
    told = undefined
    failures = 0
    forgotten += 1
  }

  /** Whether this process has read in the turn that it has: it then knows its own findings. Until then others know more. */
  const hasRead = () => turn() !== undefined && turn()?.epoch === settledUnder

  /** What is held was read after `toldAt`. Not what has a time to come: the database's clock was set back. */
  const isNewer = ({ slice: { walkedAt } }: HeldSlice, toldAt: number) =>
    walkedAt > toldAt && walkedAt <= clock.now()

  const waitMs = () => backoffMs({ failures: Math.max(1, failures), refreshMs: LOAD_EVERY_MS, random })

  /**
   * Takes also rows that were replaced meanwhile: where they come faster than they load, none would be shown else. False when they
   * are not to be had for now.
   */
  async function loadMarked(wanted: string): Promise<boolean> {
    const before = forgotten
    const saved = await load() // at least as new as `wanted`
    if (forgotten !== before || !told) return saved !== undefined
    failures = saved ? 0 : failures + 1
    if (!saved) return false
    heldMark = wanted
    store.follows(key(), wanted, saved.slice.walkedAt)
    options.take(told.standing, { ...saved, confirmedAt: told.confirmedAt })
    return true
  }

  /**
   * Until the newest are here, or are not to be had. That is tried again after a while, and with the next word of them, which may be a
   * long time away, or when this process reads in vain.
   */
  async function catchUp(): Promise<void> {
    if (isLoading) return
    cancelAgain()
    isLoading = true
    try {
      for (let wanted = mark; wanted !== undefined && wanted !== heldMark; wanted = mark) {
        const isThere = loadMarked(wanted)
        loading = isThere.then(() => {})
        if ((await isThere) || mark !== wanted) continue
        cancelAgain = clock.after(waitMs(), () => void catchUp())
        return
      }
    } finally {
      isLoading = false
    }
  }

  function take({ slice, confirmedAt, ...standing }: Reading): void {
    if (hasRead()) return
    const now = held()
    if (confirmedAt === undefined) {
      forget()
      options.take(standing, undefined)
      return
    }
    // What this process saved last, before it lost the turn: whoever has the turn now had not loaded it.
    if (now && isNewer(now, confirmedAt)) {
      options.take(standing, now)
      return
    }
    told = { standing, confirmedAt }
    // Older rows than those that are told of are not confirmed by it.
    const isHeld = slice === undefined || slice === heldMark
    if (now) {
      const at = isHeld ? Math.max(now.confirmedAt, confirmedAt) : now.confirmedAt
      options.take(standing, { ...now, confirmedAt: at })
    }
    if (isHeld) return
    mark = slice
    void catchUp()
  }

  /** What this process read in a turn that was over is nobody's to find: what is saved is shown again. */
  function lost(slice: Slice, under: Turn, found: string | undefined): void {
    const now = held()
    const isLoadingOthers = mark !== undefined && mark !== heldMark
    if (now?.slice.rows !== slice.rows || isLoadingOthers || (hasRead() && settledUnder !== under.epoch))
      return
    const reading = readings.of(key())
    const standing = reading ?? { answered: false, failures: 0 }
    forget()
    settledUnder = undefined
    mark = found ?? reading?.slice
    if (mark === undefined) {
      options.take(standing, undefined)
      return
    }
    told = { standing, confirmedAt: reading?.confirmedAt ?? now.confirmedAt }
    void catchUp()
  }

  const heard = {
    read: take,
    lost,
    hurry(how: Hurry) {
      if (turn()) options.hurry[how]()
    },
  }
  let stopHearing = () => {}

  return {
    take,
    hasRead,
    /** This process has read: with success, what it was told or loads is older. In vain, it shows what others saved last. */
    settled(under: Turn, isRead: boolean): void {
      settledUnder = under.epoch
      if (isRead) forget()
      else void catchUp()
    },
    /** Listens from now on. `holds`: the save that is held already, if it is one that was told of. */
    begin(holds: string | undefined): void {
      mark = holds
      heldMark = holds
      const walkedAt = held()?.slice.walkedAt
      if (holds !== undefined && walkedAt !== undefined) store.follows(key(), holds, walkedAt)
      stopHearing = readings.hear(key(), heard)
    },
    /** Nothing is held any more: what is told of next is loaded, also if it was held before. */
    forget,
    /** Resolves when what was told so far is loaded, or cannot be for now: who waits would go on with older rows. */
    async loaded(): Promise<void> {
      for (let left = AWAITED.loads; ; await pause(clock, AWAITED.pauseMs)) {
        void catchUp()
        await loading // of what may have been replaced meanwhile
        await loading
        left -= 1
        if (failures === 0 || left === 0) return
      }
    },
    /** Stops listening; resolves when nothing is being loaded. */
    async close(): Promise<void> {
      stopHearing()
      while (isLoading) await loading
      cancelAgain()
    },
  }
}
