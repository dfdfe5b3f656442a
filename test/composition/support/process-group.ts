/** Processes that share a storage and tell each other generations, as a test says: who builds, and when time passes. */
import { createGenerations } from '../../../src/composition/generations.js'
import type { Account } from '../../../src/composition/settings.js'
import type { Gap } from '../../../src/feed/query.js'
import { buildSnapshot } from '../../../src/snapshot/builder.js'
import { SNAPSHOT_FORM, type Snapshot } from '../../../src/snapshot/snapshot.js'
import {
  type Blobs,
  createPassingBlobs,
  type Hear,
  type Sharing,
} from '../../../src/upstreams/rows/storage.js'
import { emptyFeed } from '../../feed/feed-of.js'
import { pageOf } from '../../feed/reader.js'
import { buyer, judgeThat, listing, sliceOf } from '../../feed/world.js'
import { createManualClock } from '../../support/upstream-clock.js'

/** Where snapshots stand in the storage. */
export const SNAPSHOTS = `form/${SNAPSHOT_FORM}/snapshot/`
const RETAINED_MS = 60_000
export const snapshotOf = (name: string): Snapshot =>
  buildSnapshot({
    slices: [sliceOf('north', [listing('a', { name }), listing('b', { name })])],
    judge: judgeThat(),
  })

/** Processes on one storage; the test says who builds. */
export function createGroup() {
  const time = createManualClock()
  const blobs = createPassingBlobs()
  const hears: { prefix: string; listener: Hear }[] = []
  let words = 0
  const turns: (() => void)[] = []
  const state = { hears: true }
  const members: string[] = []
  let builder = 'none'
  let epoch = 0
  const otherForms = new Set<number>()
  const sizes = new Map<string, number>()
  const kept = new Map<string, number>()
  const written: { before(): Promise<void> } = { before: async () => {} }

  function sharingOf(self: string, over: Blobs): Sharing {
    const turn = (name: string) => (builder === self ? { name, epoch } : undefined)
    return {
      want: () => {},
      lead: () => {},
      isNewest: () => true,
      forms: () => new Set([SNAPSHOT_FORM, ...otherForms]),
      turn,
      onTurns: (listener) => void turns.push(listener),
      pass: async () => {},
      remove: (name) => over.remove(name),
      async tell(name, value, under) {
        if (under && epoch !== under.epoch) return false
        words += 1
        for (const { prefix, listener } of hears) {
          if (name.startsWith(prefix)) listener(name, value, 0, words)
        }
        return true
      },
      keep: async (name) => void kept.set(name, time.clock.now()),
      freed: async (names) => names.map((name) => sizes.get(name) ?? 0),
      heard: async () => state.hears,
      hear: (prefix, listener) => void hears.push({ prefix, listener }),
      async write(name, parts, under) {
        await written.before()
        if (epoch !== under.epoch) return false
        await blobs.write(name, parts)
        return true
      },
    }
  }

  return {
    time,
    blobs,
    /** Of processes of other releases that live. */
    otherForms,
    /** `hears`: whether what others told can be heard. */
    state,
    /** When words that were told were last kept, by name. */
    kept,
    /** What the storage is rid of with a blob. */
    sizes,
    /** `before`: what a write waits for. */
    written,
    /** Time passes, and what is due in each minute is done. */
    async minutes(count: number): Promise<void> {
      for (let minute = 0; minute < count; minute += 1) {
        time.advance(60_000)
        await new Promise(setImmediate)
      }
    },
    /** `hears`: whether the processes hear of it at once. */
    build(self: string, hears = true): void {
      builder = self
      epoch += 1
      if (!hears) return
      for (const listener of turns) listener()
    },
    /** `accounts`: as they are configured at that process. */
    join(self: string, over: Blobs = blobs, accounts = new Map<string, Account>()) {
      const feed = emptyFeed({ ms: RETAINED_MS, bytes: 2 ** 30 })
      const troubles: string[] = []
      let everywhere = 0
      members.push(self)
      const generations = createGenerations({
        ...{
          sharing: sharingOf(self, over),
          self,
          members: () => members,
          blobs: over,
          feed,
          clock: time.clock,
          secret: Buffer.from('a secret'),
        },
        accounts: () => accounts,
        onTaken: () => {},
        onEverywhere() {
          everywhere += 1
        },
        onTrouble: (message) => void troubles.push(message),
      })
      const publish = async (snapshot: Snapshot, gaps: readonly Gap[] = []) => {
        const under = generations.turn()
        const definitions = generations.definitions()
        const generation = { open: { snapshot, gaps }, accounts: new Map(), definitions }
        if (under) await generations.tell(generation, under, Promise.resolve(true))
        feed.publish(snapshot, time.clock.now(), { gaps })
        generations.shown()
      }
      const page = (cursor?: string) =>
        pageOf(feed.wholesale({ maxResults: 1, ...(cursor && { cursor }) }, buyer, time.clock.now()))
      const recall = (cursor: string) =>
        generations.recall({ maxResults: 1, cursor }, buyer, time.clock.now())
      return { feed, generations, publish, page, recall, troubles, everywhere: () => everywhere }
    },
  }
}
