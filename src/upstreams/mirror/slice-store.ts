/**
 * Slices that survive the process: one blob per slice, written whole after each walk, and one small blob of
 * confirmations, so that an `unchanged` poll need not write the slice again.
 */
import { backoffMs, type Clock } from '../../net/clock.js'
import { collectAgain } from '../rows/new-slice.js'
import { bytesOf, type Slab, sharedBytes } from '../rows/slab.js'
import type { Slice } from '../rows/slice.js'
import type { Blobs, Sharing, Turn } from '../rows/storage.js'
import type { HeldSlice } from './mirror.js'
import type { Reading, Readings } from './readings.js'
import { type Key, mayRead, type Owner, PUBLIC, untokened } from './scope-setting.js'

const FORMAT = 2
const UNWRITTEN = 1 // rows as they arrived: they are read again with the current rules
/**
 * Raised when reading keeps more of a row: what was read before that is asked for again, without a token; not what a later release
 * read, which lacks nothing. No format of its own, so that the release before finds the rows as well while one replaces the other.
 */
const READING = 2
const PREFIX = 'slice/'
const CONFIRMATIONS = 'confirmations'
const DISTRUSTED = 'distrusted' // a name among the confirmations that no slice has
const CONFIRM_EVERY_MS = 30_000
const REPORTS = 'reading/' // before the name of the slice
const TELL_EVERY_MS = 60_000 // what could not be saved or told: soon at first, and then once in so long

type Header = Omit<Slice, 'rows' | 'digests'> & {
  format: number
  /** Absent: read before there was such a number. */
  reading?: number
  domains: readonly string[]
  confirmedAt: number
  cacheScope?: string
} & Owner

type SliceStoreOptions = {
  blobs: Blobs
  clock: Clock
  /** With other processes; absent: this one is alone on its storage. */
  shared?: { sharing: Sharing; readings: Readings }
  /** Receives messages about what could not be read or written; only durability is lost. */
  onTrouble(message: string): void
}

function nameOf({ agentUrl, scope }: Key): string {
  return `${PREFIX}${encodeURIComponent(scope)}/${agentUrl}`
}

/** When each slice was last confirmed, ms since the epoch, and the slices whose tokens are not to be sent. */
type Confirmations = Record<string, number | string[]>

/** The url in such a name. */
const urlIn = (name: string) => name.split('/').slice(2).join('/')

function encode({ slice, domains, confirmedAt, cacheScope }: HeldSlice, owner: Owner): Uint8Array[] {
  const { rows, digests, ...rest } = slice
  const header: Header = {
    ...rest,
    format: FORMAT,
    reading: READING,
    domains,
    confirmedAt,
    ...owner,
    ...(cacheScope && { cacheScope }),
  }
  const columns = [digests, rows.chunkOf, rows.start, rows.length].map(bytesOf)
  return [Buffer.from(JSON.stringify(header)), ...columns, ...rows.chunks]
}

async function decode(parts: readonly Uint8Array[], owner: Owner, key: Key): Promise<HeldSlice | undefined> {
  const [head, digests, chunkOf, start, length, ...chunks] = parts
  if (!head || !digests || !chunkOf || !start || !length) return undefined
  const header = JSON.parse(Buffer.from(head).toString()) as Header
  if (header.format !== FORMAT && header.format !== UNWRITTEN) return undefined
  if (!mayRead(key.scope, header, owner)) return undefined
  const { format, reading = 0, domains, confirmedAt, cacheScope, credential, account, ...rest } = header
  const rows: Slab = {
    count: length.byteLength / 4,
    chunks: chunks.map((chunk) => new Uint8Array(sharedBytes(chunk))),
    chunkOf: new Uint16Array(sharedBytes(chunkOf)),
    start: new Uint32Array(sharedBytes(start)),
    length: new Uint32Array(sharedBytes(length)),
  }
  const { feedVersion, pricingVersion, ...untokened } = rest
  const known = credential === owner.credential && reading >= READING ? rest : untokened
  // Before whose prices they are was kept with rows, those of an agent that tells them for accounts only were its reader's.
  const isReaders = key.scope === PUBLIC && cacheScope === 'account'
  const described = { ...(isReaders && { pricedFor: credential }), ...known }
  const content =
    format === UNWRITTEN
      ? await collectAgain(rows)
      : { rows, digests: new BigUint64Array(sharedBytes(digests)), domains }
  return {
    slice: { ...described, rows: content.rows, digests: content.digests },
    domains: content.domains,
    confirmedAt,
    ...(cacheScope && { cacheScope }),
  }
}

/** What cannot be read counts as missing; what cannot be written is told to `onTrouble`. */
export function createSliceStore({ blobs, clock, shared, onTrouble }: SliceStoreOptions) {
  const confirmations = new Map<string, number>() // when what is saved was last confirmed
  const distrusted = new Set<string>()
  const writing = new Map<string, Promise<void>>()
  const waiting = new Map<string, () => Promise<void>>()
  const marks = new Map<string, string>() // of what other processes find in the storage
  /** What is in the storage under these names, if anything, is older than what is served; with the last try to save it. */
  const unsaved = new Map<string, { epoch: number; again(): void }>()
  const savedUnder = new Map<string, number>() // by name, the epoch of the turn in which this process saved it last
  const untold = new Map<string, () => void>() // under the same names: stops the next try to tell of the last reading
  const walked = new Map<string, number>() // by name, when that was walked which others find here
  let saves = 0
  let isClosed = false
  let cancelFlush: (() => void) | undefined

  /** One write per name at a time; of waiting writes only the newest is done. */
  function enqueue(name: string, task: () => Promise<void>): void {
    if (writing.has(name)) {
      waiting.set(name, task)
      return
    }
    const done = task()
      .catch((error: Error) => onTrouble(`${name} could not be saved: ${error.message}`))
      .finally(() => {
        writing.delete(name)
        const next = waiting.get(name)
        waiting.delete(name)
        if (next) enqueue(name, next)
      })
    writing.set(name, done)
  }

  function flush(): void {
    cancelFlush?.()
    cancelFlush = undefined
    const kept: Confirmations = { ...Object.fromEntries(confirmations), [DISTRUSTED]: [...distrusted] }
    const bytes = Buffer.from(JSON.stringify(kept))
    enqueue(CONFIRMATIONS, () => blobs.write(CONFIRMATIONS, [bytes]))
  }

  const isDistrusted = (key: Key) =>
    distrusted.has(nameOf(key)) || shared?.readings.of(key)?.distrusted === true

  /** What several processes know of it they tell each other with their readings. */
  const flushSoon = () => {
    if (shared) return
    cancelFlush ??= clock.after(CONFIRM_EVERY_MS, flush)
  }

  function tellNoMore(name: string): void {
    untold.get(name)?.()
    untold.delete(name)
  }

  function remove(key: Key, turn: Turn): void {
    const name = nameOf(key)
    confirmations.delete(name)
    distrusted.delete(name)
    marks.delete(name)
    unsaved.delete(name)
    savedUnder.delete(name)
    walked.delete(name)
    tellNoMore(name)
    enqueue(name, () => (shared ? shared.sharing.remove(name, turn) : blobs.remove(name)))
  }

  /** Whoever finds the rows is told of them, and whoever is told of them finds them. False when the turn is over. */
  async function writeShared(
    { sharing, readings }: NonNullable<SliceStoreOptions['shared']>,
    { slice, confirmedAt }: HeldSlice,
    parts: readonly Uint8Array[],
    turn: Turn,
    mark: string,
  ): Promise<boolean> {
    const name = nameOf(slice)
    const isDoubted = distrusted.has(name) && { distrusted: true }
    const reading = { answered: true, failures: 0, confirmedAt, slice: mark, ...isDoubted }
    const stood = await sharing.write(name, parts, turn, readings.wordOf(slice, reading))
    if (stood) marks.set(name, mark)
    else readings.lost(slice, turn, marks.get(name))
    return stood
  }

  /** `mark`: that of the same rows where they are saved again; absent where they are others. */
  async function write(
    name: string,
    held: HeldSlice,
    owner: Owner,
    turn: Turn,
    mark = `${turn.epoch}.${++saves}`,
  ): Promise<void> {
    unsaved.set(name, { epoch: turn.epoch, again: () => save(held, owner, turn) })
    const parts = encode(held, owner)
    if (!shared) await blobs.write(name, parts)
    // A process that has lost its turn writes nothing: who has the turn next, this one perhaps, has to save again.
    else if (!(await writeShared(shared, held, parts, turn, mark))) return
    walked.set(name, held.slice.walkedAt)
    savedUnder.set(name, turn.epoch)
    confirmations.set(name, held.confirmedAt)
    unsaved.delete(name)
  }

  function save(held: HeldSlice, owner: Owner, turn: Turn, mark?: string): void {
    const name = nameOf(held.slice)
    enqueue(name, () => write(name, held, owner, turn, mark))
  }

  /** Waits until all that was to be written under that name so far is, or what came after it: not for what comes later still. */
  async function written(name: string): Promise<void> {
    const isMore = waiting.has(name)
    await writing.get(name)
    if (isMore) await writing.get(name)
  }

  /** When what is saved was last confirmed, as this process or the others know; undefined when nothing is. */
  function savedAt(key: Key): number | undefined {
    const known = [confirmations.get(nameOf(key)), shared?.readings.of(key)?.confirmedAt]
    const times = known.filter((at) => at !== undefined)
    return times.length === 0 ? undefined : Math.max(...times)
  }

  function report(key: Key, reading: Reading, turn: Turn, failures: number): void {
    if (!shared) return
    const { sharing, readings } = shared
    const name = nameOf(key)
    const stands = () => sharing.turn(turn.name)?.epoch === turn.epoch
    tellNoMore(name)
    enqueue(`${REPORTS}${name}`, async () => {
      await written(name)
      const slice = reading.confirmedAt === undefined ? undefined : marks.get(name)
      const { confirmedAt: heldAt, ...outcome } = reading
      const confirmedAt = heldAt !== undefined && unsaved.has(name) ? savedAt(key) : heldAt
      const told = {
        ...outcome,
        ...(confirmedAt !== undefined && { confirmedAt }),
        ...(slice !== undefined && { slice }),
        ...(distrusted.has(name) && { distrusted: true }),
      }
      const isTold = await readings.tell(key, told, turn)
      const isLater = isClosed || waiting.has(`${REPORTS}${name}`)
      if ((isTold && !unsaved.has(name)) || isLater || !stands()) return
      const wait = backoffMs({ failures: failures + 1, refreshMs: TELL_EVERY_MS, random: () => 1 })
      untold.set(
        name,
        clock.after(wait, () => {
          if (!stands()) return
          unsaved.get(name)?.again()
          report(key, reading, turn, failures + 1)
        }),
      )
    })
  }

  return {
    /** Reads the confirmations of an earlier process. Call once, before `load`. */
    async restore(): Promise<void> {
      const [part] = (await blobs.read(CONFIRMATIONS)) ?? []
      const saved = part ? (JSON.parse(Buffer.from(part).toString()) as Confirmations) : {}
      for (const [name, kept] of Object.entries(saved)) {
        if (typeof kept === 'number') confirmations.set(name, kept)
        else for (const one of kept) distrusted.add(one)
      }
    },
    /** Never rejects: a slice that cannot be read counts as missing. */
    async load(key: Key, owner: Owner): Promise<HeldSlice | undefined> {
      const name = nameOf(key)
      try {
        const parts = await blobs.read(name)
        const held = parts && (await decode(parts, owner, key))
        if (!held) return undefined
        if (!marks.has(name)) marks.set(name, `0.${held.confirmedAt}`)
        const known = isDistrusted(key) ? untokened(held) : held
        const confirmedAt = Math.max(held.confirmedAt, savedAt(key) ?? 0)
        confirmations.set(name, confirmedAt)
        return { ...known, confirmedAt }
      } catch (error) {
        onTrouble(`${name} could not be read: ${(error as Error).message}`)
        return undefined
      }
    },
    save: (held: HeldSlice, owner: Owner, turn: Turn): void => save(held, owner, turn),
    /**
     * Confirms that what is saved is still current; what could not be saved is tried again instead. Several processes tell
     * this with the reading, and save it once in each turn: the storage may have been put back to an earlier state, which ends
     * all turns, and has older rows then, which nobody must take for those that are confirmed.
     */
    confirm(held: HeldSlice, owner: Owner, turn: Turn): void {
      const name = nameOf(held.slice)
      if (unsaved.has(name)) {
        const isBeingSaved = writing.has(name) && unsaved.get(name)?.epoch === turn.epoch
        if (!isBeingSaved) save(held, owner, turn)
      } else if (shared && savedUnder.get(name) !== turn.epoch) {
        save(held, owner, turn, marks.get(name))
      } else {
        confirmations.set(name, held.confirmedAt)
        walked.set(name, held.slice.walkedAt)
        flushSoon()
      }
    },
    /** The next process to load it gets no token: it must read completely. */
    distrust(key: Key): void {
      distrusted.add(nameOf(key))
      flushSoon()
    },
    /** It has been read completely. */
    trust(key: Key): void {
      if (distrusted.delete(nameOf(key))) flushSoon()
    },
    /**
     * Tells the others the outcome of a reading, after they can find what it saved. Where that could not be saved, they have what was
     * saved before, which it does not confirm. What could not be saved or told is tried again, as long as the turn stands and no
     * later reading says more.
     */
    report: (key: Key, reading: Reading, turn: Turn): void => report(key, reading, turn, 0),
    /** Whether other processes find these slices, or newer ones: waits for what is being saved, and tries again what could not be. */
    async areFound(slices: readonly Slice[]): Promise<boolean> {
      if (!shared) return true
      const found = slices.map(async (slice) => {
        const name = nameOf(slice)
        const isFound = () => (walked.get(name) ?? 0) >= slice.walkedAt
        if (isFound() || !(writing.has(name) || unsaved.has(name))) return true
        if (!writing.has(name)) unsaved.get(name)?.again()
        await written(name)
        return isFound()
      })
      return (await Promise.all(found)).every((is) => is)
    },
    /** What another process saved is held here now; when it was walked. */
    follows(key: Key, mark: string, walkedAt: number): void {
      marks.set(nameOf(key), mark)
      walked.set(nameOf(key), walkedAt)
      unsaved.delete(nameOf(key))
    },
    remove,
    /** Deletes slices of agents and accounts that no longer exist. */
    async sweep(isKnown: (key: Key) => boolean, turn: Turn): Promise<void> {
      for (const name of new Set([...confirmations.keys(), ...(await blobs.list(PREFIX))])) {
        const [, scope = ''] = name.split('/')
        const key = { agentUrl: urlIn(name), scope: decodeURIComponent(scope) }
        if (!isKnown(key)) remove(key, turn)
      }
    },
    async close(): Promise<void> {
      isClosed = true
      for (const name of [...untold.keys()]) tellNoMore(name)
      if (cancelFlush) flush()
      while (writing.size > 0) await Promise.all(writing.values())
    },
  }
}

export type SliceStore = ReturnType<typeof createSliceStore>
