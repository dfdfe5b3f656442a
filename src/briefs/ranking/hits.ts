/**
 * Numbers for signals while one question is answered. A hit is an entry of the reader's snapshot; numbers beyond its
 * last entry are entries of the small snapshot of what upstreams found and the feed lacks.
 */
import type { SignalRef } from '../../adcp/reference.js'
import { entryOfRef } from '../../feed/find-signal.js'
import { compareKeys, findKey, WORDS } from '../../snapshot/keys.js'
import { handleAt, type Snapshot } from '../../snapshot/snapshot.js'
import { createMeter, type InPortions, inTurns } from '../../threads/portions.js'

export type Corpus = {
  /** The feed as the reader sees it. */
  readonly feed: Snapshot
  /** What upstreams found and the feed lacks. */
  readonly extra?: Snapshot
}

/** The snapshot and entry of a hit. */
export function placeOf({ feed, extra }: Corpus, hit: number): { snapshot: Snapshot; entry: number } {
  if (hit < feed.count || !extra) return { snapshot: feed, entry: hit }
  return { snapshot: extra, entry: hit - feed.count }
}

/** Bytes of its row. */
export function sizeOf(corpus: Corpus, hit: number): number {
  const { snapshot, entry } = placeOf(corpus, hit)
  return snapshot.rows.length[entry] as number
}

/** The handle of the signal. */
export function handleOf(corpus: Corpus, hit: number): string {
  const { snapshot, entry } = placeOf(corpus, hit)
  return handleAt(snapshot, entry)
}

/** The key of the signal, the same in every snapshot. */
export function keyOf(corpus: Corpus, hit: number): Uint32Array {
  const { snapshot, entry } = placeOf(corpus, hit)
  return snapshot.keys.subarray(entry * WORDS, (entry + 1) * WORDS)
}

function shownEntry(snapshot: Snapshot, key: Uint32Array): number {
  const entry = findKey(snapshot.keys, snapshot.count, key)
  return entry >= 0 && snapshot.rows.length[entry] !== 0 ? entry : -1
}

/**
 * The hit with a key; -1 when its row is not shown. The snapshot of findings is asked first, because it holds all
 * offers of its signals.
 */
export function hitOf({ feed, extra }: Corpus, key: Uint32Array): number {
  const found = extra ? shownEntry(extra, key) : -1
  return found >= 0 ? feed.count + found : shownEntry(feed, key)
}

/** The hits that references name, each once, in their order. */
export function anchorsOf({ feed, extra }: Corpus, refs: readonly SignalRef[]): number[] {
  const named = refs.map((ref) => {
    const found = extra ? entryOfRef(extra, ref) : -1
    return found >= 0 ? feed.count + found : entryOfRef(feed, ref)
  })
  return [...new Set(named.filter((hit) => hit >= 0))]
}

/** For each entry of one snapshot, the entry of the same signal in the other; -1 when that one does not show it. */
export function createTranslations() {
  const known = new WeakMap<Snapshot, WeakMap<Snapshot, Promise<Int32Array>>>()

  /** Both are in key order, so one walk joins them. */
  function* translated(from: Snapshot, to: Snapshot): InPortions<Int32Array> {
    const meter = createMeter()
    const entries = new Int32Array(from.count).fill(-1)
    let other = 0
    for (let entry = 0; entry < from.count; entry += 1) {
      while (other < to.count && compareKeys(to.keys, other, from.keys, entry) < 0) other += 1
      const isThere = other < to.count && compareKeys(to.keys, other, from.keys, entry) === 0
      if (isThere && to.rows.length[other] !== 0) entries[entry] = other
      meter.did(1)
      if (meter.isDue()) yield
    }
    return entries
  }

  return async (from: Snapshot, to: Snapshot): Promise<Int32Array | undefined> => {
    if (from === to || from.id === to.id) return undefined // equal content, equal entries
    const targets = known.get(from) ?? new WeakMap<Snapshot, Promise<Int32Array>>()
    known.set(from, targets)
    const entries = targets.get(to) ?? inTurns(translated(from, to))
    targets.set(to, entries)
    return await entries
  }
}
