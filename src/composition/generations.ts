/**
 * One feed from many processes: whoever holds the builder's lease saves each generation and tells the others, which take up
 * what they do not hold yet and publish it in one step. A cursor names its snapshot, so that one that this process
 * does not have, or no longer has, is loaded when a walk goes on in it.
 */
import { randomUUID } from 'node:crypto'
import type { Feed } from '../feed/feed.js'
import { EVERYBODY, type Publication } from '../feed/layers.js'
import type { Gap, Reader, WholesaleQuery } from '../feed/query.js'
import { type Clock, pause } from '../net/clock.js'
import { createRecent } from '../process/memory.js'
import { memoryOf, SNAPSHOT_FORM, type Snapshot } from '../snapshot/snapshot.js'
import { createWalks } from '../store/replicas/cursors.js'
import { createShown } from '../store/replicas/shown.js'
import type { Blobs, Sharing, Turn } from '../upstreams/rows/storage.js'
import { createSnapshotStore, gapOf, type ToldGap, toldGap } from './saved-snapshots.js'
import { type Account, type AccountMap, accountMark } from './settings.js'

/** Snapshots of another form are another release's, with its own builder: neither disturbs the other. */
const FORM = `form/${SNAPSHOT_FORM}/`
const BUILDER = `${FORM}builder`
const NOTE = `${FORM}generation`
/** Told by every process, whoever builds. */
const WALKED = `walked/${SNAPSHOT_FORM}/`
const SHOWN = `shown/${SNAPSHOT_FORM}/`
const SWEEP_EVERY_MS = 60_000
const TAKE_AGAIN_MS = 1_000
const MOST_OF_OTHERS = 1_000
const RECALL_MS = 5_000 // a caller waits no longer; what is read meanwhile is there when it asks again

/** All snapshots of one revision of the world. */
type Generation = {
  open: { snapshot: Snapshot; gaps: readonly Gap[] }
  accounts: NonNullable<Publication['accounts']>
  /** What each account was when it was put together, in a word. */
  definitions: ReadonlyMap<string, string>
}

type ToldLayer = { id: string; gaps: ToldGap[] }
type Told = {
  /** Names the generation; an earlier release gives it none. */
  generation?: string
  open: ToldLayer
  accounts: [name: string, layer: ToldLayer & { definition: string }][]
  /** What all other accounts were, which are answered like everybody; an earlier release does not tell it. */
  plain?: [name: string, definition: string][]
}

type Lacking = NonNullable<ReturnType<Feed['lacking']>>

type GenerationsOptions = {
  sharing: Sharing
  /** Names this process, and all that live. */
  self: string
  members(): readonly string[]
  blobs: Blobs
  feed: Feed
  clock: Clock
  /** The callers' accounts as they are configured now. */
  accounts(): AccountMap
  /** The same on all processes, and nobody else's. */
  secret: Uint8Array
  /** Told of each generation that this process took up. */
  onTaken(before: Snapshot | undefined, after: Snapshot): void
  /** Called when all processes show the generation that this one does. */
  onEverywhere(): void
  onTrouble(message: string): void
}

export type Generations = ReturnType<typeof createGenerations>

export function createGenerations(options: GenerationsOptions) {
  const { sharing, self, members, blobs, feed, clock, accounts, secret, onTaken, onTrouble } = options
  const { onEverywhere } = options
  const snapshots = createSnapshotStore({ blobs, clock, sharing })
  const walks = createWalks(sharing, WALKED)
  feed.onWalk(walks.note)
  const shown = createShown({ sharing, prefix: SHOWN, self, members, clock, onEverywhere })
  const recalling = new Map<string, Promise<boolean>>()
  const ofOthers = createRecent<true>(MOST_OF_OTHERS) // what was read for a walk and must not be shown to it
  let current: Told | undefined
  let wanted: Told | undefined
  let taking: Promise<void> | undefined
  let trying: Promise<boolean> | undefined
  let troubled: Told | undefined // the generation that was already reported as impossible to load
  let closed = false
  const ending = new AbortController()
  let cancelSweep = clock.after(SWEEP_EVERY_MS, () => void sweep())
  let hasFirst = () => {}
  const first = new Promise<void>((resolve) => {
    hasFirst = resolve
  })

  const turn = () => sharing.turn(BUILDER)
  sharing.onTurns(() => {
    if (!turn()) snapshots.leave()
  })

  /** What is stored of an account. */
  const definitionOf = (account: Account | undefined) => accountMark(secret, account)

  /** In memory already, or read from the storage. Rejects when it is not there. */
  async function snapshotOf(id: string, layer?: string): Promise<Snapshot> {
    const before = feed.current(layer)
    if (before?.id === id) return before
    const kept = await snapshots.read(id)
    if (!kept) throw new Error(`snapshot ${id} is not in the storage, or another release wrote it`)
    return { ...kept.snapshot, memory: memoryOf(kept.snapshot, before) }
  }

  async function layerOf({ id, gaps }: ToldLayer, name?: string) {
    return { snapshot: await snapshotOf(id, name), gaps: gaps.map(gapOf) }
  }

  /** Shows it also when a newer one was told meanwhile: where they come faster than one is read, none would be shown else. */
  async function takeUp(told: Told): Promise<void> {
    const before = current
    const open = await layerOf(told.open)
    const own = new Map<string, { snapshot: Snapshot; gaps: readonly Gap[] }>()
    for (const [name, layer] of told.accounts) {
      const isPublic = layer.id === told.open.id
      own.set(name, isPublic ? { ...open, gaps: layer.gaps.map(gapOf) } : await layerOf(layer, name))
    }
    if (current !== before || closed) return // this process has built a newer one
    const { plain = [] } = told
    const definitions = new Map([
      ...plain,
      ...told.accounts.map(([name, { definition }]) => [name, definition] as const),
    ])
    const isTold = (name: string) => told.plain !== undefined || definitions.has(name)
    const isCurrent = (name: string) => (definitions.get(name) ?? '') === definitionOf(accounts().get(name))
    const replaced = feed.current()
    feed.publish(open.snapshot, clock.now(), {
      gaps: open.gaps,
      accounts: own,
      isCurrent: (name) => !isTold(name) || isCurrent(name),
    })
    current = told
    onTaken(replaced, open.snapshot)
    shown.show(told.generation)
    hasFirst()
  }

  /** False when it cannot be loaded now. */
  async function couldTakeUp(told: Told): Promise<boolean> {
    try {
      await takeUp(told)
      return true
    } catch (error) {
      if (told !== troubled) onTrouble(`a generation could not be taken up: ${(error as Error).message}`)
      troubled = told
      return false
    }
  }

  /** The newest generation that another process announced, as long as it is not loaded. */
  async function follow(): Promise<void> {
    while (wanted && wanted !== current && !closed) {
      const told = wanted
      trying = couldTakeUp(told)
      if (!(await trying)) await pause(clock, TAKE_AGAIN_MS, ending.signal)
    }
    taking = undefined
  }

  sharing.hear(NOTE, (_name, value) => {
    if (turn()) return // what it builds itself it publishes itself
    wanted = value as Told
    taking ??= follow()
  })

  /** A layer's name in the storage: with the account that it was made for, whoever the name stands for when it is read. */
  const savedName = (name: string, definition: string) =>
    name === EVERYBODY ? name : JSON.stringify([name, definition])

  async function save(
    { open, accounts: own, definitions }: Generation,
    under: Turn,
    areFound: Promise<boolean>,
  ): Promise<Told | undefined> {
    const accounts = [...own].map(
      ([name, layer]) => [savedName(name, definitions.get(name) ?? ''), layer] as const,
    )
    if (!(await snapshots.save(new Map([[EVERYBODY, open], ...accounts]), under))) return undefined
    const told: Told = {
      generation: randomUUID(),
      open: { id: open.snapshot.id, gaps: open.gaps.map(toldGap) },
      accounts: [...own].map(([name, { snapshot, gaps }]) => [
        name,
        { id: snapshot.id, gaps: gaps.map(toldGap), definition: definitions.get(name) ?? '' },
      ]),
      plain: [...definitions].filter(([name]) => !own.has(name)),
    }
    if (!(await areFound)) throw new Error('rows that others could not find are not shown')
    return (await sharing.tell(NOTE, told, under)) ? told : undefined
  }

  const used = () => new Set([current?.open.id ?? '', ...(current?.accounts ?? []).map(([, { id }]) => id)])

  async function sweep(): Promise<void> {
    walks.tell()
    shown.tell()
    const under = turn()
    if (under && current) {
      await snapshots
        .sweep(() => ({ newest: used(), isWalked: walks.has }), under)
        .catch((error: Error) => onTrouble(`old snapshots stay in the storage: ${error.message}`))
      await sharing.keep(NOTE)
    }
    if (!closed) cancelSweep = clock.after(SWEEP_EVERY_MS, () => void sweep())
  }

  /**
   * Whoever gave a cursor into it had saved it before: what is not there now will not come. False when the storage does
   * not say whether it is there.
   */
  async function recalled({ layers, id }: Lacking): Promise<boolean> {
    const nameOf = (layer: string) => savedName(layer, definitionOf(accounts().get(layer)))
    const names = layers.map(nameOf)
    const asked = JSON.stringify([id, names])
    if (ofOthers.has(asked)) return true
    try {
      const kept = await snapshots.read(id)
      if (!kept || closed) return true
      const at = names.findIndex((name) => kept.gaps.has(name))
      const [layer, name] = [layers[at], names[at]]
      if (layer === undefined || name === undefined) ofOthers.set(asked, true)
      else {
        const gaps = kept.gaps.get(name) ?? []
        const stands = () => nameOf(layer) === name
        feed.restore(layer, { snapshot: kept.snapshot, gaps, stands }, clock.now())
      }
      return true
    } catch (error) {
      onTrouble(`a snapshot could not be read: ${(error as Error).message}`)
      return false
    }
  }

  /** Many walks that come from one process at once cost one reading. */
  function recalledOnce(lacking: Lacking): Promise<boolean> {
    const name = JSON.stringify(lacking)
    const known = recalling.get(name)
    if (known) return known
    const reading = recalled(lacking).finally(() => recalling.delete(name))
    recalling.set(name, reading)
    return reading
  }

  async function inTime(reading: Promise<boolean>): Promise<boolean> {
    const isOver = new AbortController()
    const late = pause(clock, RECALL_MS, isOver.signal).then(() => false)
    return await Promise.race([reading, late]).finally(() => isOver.abort())
  }

  return {
    /** What each account is now, in a word. */
    definitions: () => new Map([...accounts().values()].map((one) => [one.name, definitionOf(one)])),
    /** Undefined when another process builds. */
    turn,
    /** Resolves when what the others told so far is heard; false when it cannot be for now. */
    heard: () => sharing.heard(),
    /** Called when this process becomes the builder, or ceases to be. */
    onTurns: (listener: () => void): void => sharing.onTurns(listener),
    /** From now on this process may be the builder. */
    offer: (): void => sharing.lead('feed', [BUILDER]),
    /** Resolves when this process has loaded a generation that another one built. */
    first: () => first,
    /** Resolves when what was told so far is taken up, or cannot be for now. */
    tried: async (): Promise<void> => void (await trying),
    /** Whether a generation is being loaded. */
    isBehind: () => taking !== undefined,
    /**
     * Saves a generation and tells the others, before any cursor into it is given. `under`: the turn in which it was begun;
     * false when that is over, also when the next one is this process's again: others may have built something newer in
     * between. `areFound`: whether whoever builds next finds the rows that it shows, however this process ends.
     * Rejects when the storage cannot take it, or they are not found.
     */
    async tell(generation: Generation, under: Turn, areFound: Promise<boolean>): Promise<boolean> {
      const told = await save(generation, under, areFound)
      if (turn()?.epoch !== under.epoch) return false
      if (!told) throw new Error('a generation could not be told to the other replicas')
      current = wanted = told
      return true
    },
    /** What was told last is shown here. */
    shown: (): void => shown.show(current?.generation),
    /** Whether all processes show what this one does. */
    isEverywhere: shown.isEverywhere,
    /**
     * A snapshot that a walk is in and the feed does not hold is put where the walk finds it, if it is to be had. False
     * when that is not known, because the storage does not answer: then the walk must not go on in another snapshot.
     */
    recall(query: WholesaleQuery, reader: Reader, now: number): Promise<boolean> | undefined {
      const lacking = feed.lacking(query, reader, now)
      return lacking && inTime(recalledOnce(lacking))
    },
    async close(): Promise<void> {
      closed = true
      ending.abort() // nothing else may keep a process alive whose start has failed: it would end before it says why
      cancelSweep()
      shown.close()
      await taking
    },
  }
}
