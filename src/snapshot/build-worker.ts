/**
 * Merges feeds, in a thread of its own unless they are small: merging a large one on the serving thread would take seconds
 * from it (docs/decisions.md#memory-and-threads). It keeps what builds share: slices and provider files as they were posted,
 * and the last snapshot of each layer.
 */
import { parentPort } from 'node:worker_threads'
import {
  type CompiledProvider,
  compileProviders,
  judgeAt,
  nextVerdictAt,
  type PolicySettings,
  type ProviderState,
} from '../authz/rules/verdict.js'
import type { Half } from '../merge/keys.js'
import { createNumbers } from '../process/memory.js'
import { drained, type InPortions } from '../process/portions.js'
import { giveWay, type Meeting, meet } from '../process/threads.js'
import type { Slice } from '../upstreams/rows/slice.js'
import { buildingSnapshot, joinedHalves } from './builder.js'
import { type KeyHalf, putRowKeys, type RowKeys } from './slice-index.js'
import { type IndexedSlice, type Snapshot, viewsOf } from './snapshot.js'

export type BuildOrder = {
  kind: 'build'
  layer: string
  /** By number, in any order; the slice itself is sent the first time only. */
  slices: { number: number; slice?: Slice }[]
  /** Providers that are new or changed since the last order, and domains that are no longer held. */
  providers: readonly ProviderState[]
  forgotten: readonly string[]
  policy: PolicySettings
  now: number
  /** Something is served already: a thread that builds gives way to it. */
  givesWay: boolean
  /** Only half of the snapshot, which is not kept: another thread builds the other half. */
  share?: Share
  /** Both halves, built under this order: they are joined. */
  halves?: readonly [BuiltReply, BuiltReply]
}

/** What one of two threads does: it finds the keys of half of the rows, and once it has all builds the signals of half of them. */
type Share = {
  half: Half
  /** One for each of the slices. */
  rowKeys: readonly RowKeys[]
  /** Where both have found theirs. */
  indexed: Meeting
}

/** The public layer that an earlier process saved: the first build here starts from it. */
export type RestoreOrder = { kind: 'restore'; snapshot: Snapshot }

export type ForgetOrder = { kind: 'forget'; layer: string }

type BuiltReply = {
  kind: 'built'
  snapshot: Omit<Snapshot, 'slices'>
  slices: { number: number; keys: IndexedSlice['keys'] }[]
  /** A number for each view of the snapshot and its slices (process/memory.ts): the same number, the same memory. */
  views: readonly number[]
  rebuildAt?: number
}

export type BuildReply = BuiltReply | { kind: 'failed'; error: unknown }

const PUBLIC = ''

/** The signals that are built here. Waits until all keys are known. */
function ownHalf({ half, rowKeys, indexed }: Share, slices: readonly Slice[]): KeyHalf {
  const of = new Map(slices.map((slice, at) => [slice, rowKeys[at] as RowKeys]))
  for (const [slice, keys] of of) putRowKeys(slice, keys, half)
  meet(indexed)
  return { half, rowKeys: of }
}

/** Carries out orders one after another, and keeps what the next ones need. */
export function createBuilds() {
  const slices = new Map<number, Slice>()
  const states = new Map<string, ProviderState>()
  const layers = new Map<string, Snapshot>()
  const numberOfView = createNumbers()
  let compiled: ReadonlyMap<string, CompiledProvider> = new Map()

  /** Drops slices that no layer's snapshot uses. The host drops the same ones, so it will not order them again. */
  function releaseSlices(): void {
    const used = new Set(
      [...layers.values()].flatMap((snapshot) => snapshot.slices.map(({ slice }) => slice)),
    )
    for (const [number, slice] of slices) if (!used.has(slice)) slices.delete(number)
  }

  /** The snapshot of a reply, over the slices that are here. */
  function replied({ snapshot, slices: indexed }: BuiltReply): Snapshot {
    const held = indexed.map(({ number, keys }) => ({ slice: slices.get(number) as Slice, keys }))
    return { ...snapshot, slices: held }
  }

  function* built(order: BuildOrder): InPortions<BuildReply> {
    for (const { number, slice } of order.slices) if (slice) slices.set(number, slice)
    for (const state of order.providers) states.set(state.domain, state)
    for (const domain of order.forgotten) states.delete(domain)
    if (order.providers.length > 0 || order.forgotten.length > 0) {
      compiled = compileProviders(states.values())
    }
    // An account's layer shares nearly all of the public one. Built on its own past, it would share less with every
    // build.
    const previous = layers.get(PUBLIC)
    const used = order.slices.map(({ number }) => slices.get(number) as Slice)
    const { share, halves } = order
    const snapshot = halves
      ? joinedHalves(replied(halves[0]), replied(halves[1]))
      : yield* buildingSnapshot({
          ...(previous ? { previous } : {}),
          slices: used,
          judge: judgeAt(compiled, order.policy, order.now),
          ...(share ? { only: ownHalf(share, used) } : {}),
        })
    const numberOf = new Map(order.slices.map(({ number }) => [slices.get(number), number]))
    if (!share) {
      layers.set(order.layer, snapshot)
      releaseSlices()
    }
    const { slices: indexed, ...rest } = snapshot
    const rebuildAt = nextVerdictAt(compiled, snapshot.facts.domains, order.now)
    return {
      kind: 'built',
      snapshot: rest,
      slices: indexed.map(({ slice, keys }) => ({ number: numberOf.get(slice) as number, keys })),
      views: [...viewsOf(snapshot), ...indexed.map(({ keys }) => keys)].map(numberOfView),
      ...(rebuildAt === undefined ? {} : { rebuildAt }),
    }
  }

  function forget(layer: string): void {
    layers.delete(layer)
    releaseSlices()
  }

  /** A build that fails because of a bug is a reply as well. */
  function* build(order: BuildOrder): InPortions<BuildReply> {
    try {
      return yield* built(order)
    } catch (error) {
      return { kind: 'failed', error }
    }
  }

  /** What is to be remembered or forgotten. */
  function note(order: RestoreOrder | ForgetOrder): void {
    if (order.kind === 'forget') forget(order.layer)
    else layers.set(PUBLIC, order.snapshot)
  }

  return { build, note }
}

const port = parentPort
if (port) {
  const { build, note } = createBuilds()
  port.on('message', (order: BuildOrder | RestoreOrder | ForgetOrder) => {
    if (order.kind !== 'build') return note(order)
    if (order.givesWay) giveWay()
    port.postMessage(drained(build(order)))
  })
}
