/**
 * A snapshot as parts for a storage, and back: after a restart the feed is not merged again but taken up
 * (docs/performance.md, "restart to ready"). Of its slices only what tells whether rows are the same is kept; the
 * rows themselves have a storage of their own (upstreams/slice-store.ts).
 */
import { bytesOf, sharedBytes } from '../upstreams/rows/shared-bytes.js'
import type { SliceMode } from '../upstreams/rows/slice.js'
import { NO_MEMORY } from './memory.js'
import type { IndexedSlice, Snapshot } from './snapshot.js'

const FORMAT = 3

/** What is not numbers. */
type Header = Pick<Snapshot, 'id' | 'count' | 'structure' | 'pricing'> &
  Pick<Snapshot['facts'], 'providers' | 'domains' | 'countrySets'> &
  Pick<Snapshot['deployments'], 'destinations'> & {
    format: number
    /** What made it: another maker's snapshot is not believed. */
    maker: string
    stamps: [domain: string, stamp: string][]
    slices: { upstream: string; agentUrl: string; scope: string; mode: SliceMode }[]
  }

/** `maker` names the code that merged it. */
export function snapshotParts(snapshot: Snapshot, maker: string): Uint8Array[] {
  const { id, count, structure, pricing, rows, facts, deployments, offers, digests, tree } = snapshot
  const header: Header = {
    ...{ format: FORMAT, maker, id, count, structure, pricing },
    ...{ providers: facts.providers, domains: facts.domains, countrySets: facts.countrySets },
    destinations: deployments.destinations,
    stamps: [...snapshot.stamps],
    slices: snapshot.slices.map(({ slice: { upstream, agentUrl, scope, mode } }) => {
      return { upstream, agentUrl, scope, mode }
    }),
  }
  const columns: ArrayBufferView[] = [
    ...[snapshot.keys, snapshot.shown, rows.chunkOf, rows.start, rows.head, rows.length],
    ...[facts.type, facts.provider, facts.domain, facts.countries, facts.mixed, facts.anywhere],
    ...[facts.coverage, facts.cpm, facts.percent, facts.currency],
    ...[deployments.at, deployments.destination, deployments.words, deployments.key],
    ...[offers.at, offers.slice, offers.row, offers.stands, offers.countries],
    ...[digests.structure, digests.core, digests.pricing, tree.structure, tree.pricing, tree.unseen],
    ...snapshot.slices.flatMap(({ slice, keys }) => [slice.digests, keys]),
  ]
  return [Buffer.from(JSON.stringify(header)), ...columns.map(bytesOf), ...rows.chunks]
}

/** Gives the parts one after the other, each as the numbers it holds. */
function createReader(parts: readonly Uint8Array[]) {
  let at = 0
  const next = () => sharedBytes(parts[at++] ?? new Uint8Array())
  return {
    u8: () => new Uint8Array(next()),
    u16: () => new Uint16Array(next()),
    u32: () => new Uint32Array(next()),
    u64: () => new BigUint64Array(next()),
    f64: () => new Float64Array(next()),
    rest: () => parts.slice(at).map((part) => new Uint8Array(sharedBytes(part))),
  }
}

/** A slice that knows which rows it had, not what stood in them. */
function remembered(
  about: Header['slices'][number],
  digests: BigUint64Array,
  keys: Uint32Array,
): IndexedSlice {
  const none = { chunks: [], chunkOf: new Uint16Array(), start: new Uint32Array(), length: new Uint32Array() }
  return {
    slice: { ...about, rows: { count: digests.length, ...none }, digests, dropped: {}, walkedAt: 0 },
    keys,
  }
}

/** The snapshot to build the next one on; undefined when another maker or format wrote the parts. */
export function snapshotFrom(parts: readonly Uint8Array[], maker: string): Snapshot | undefined {
  const [head, ...columns] = parts
  if (!head) return undefined
  const header = JSON.parse(Buffer.from(head).toString()) as Header
  if (header.format !== FORMAT || header.maker !== maker) return undefined
  const { id, count, structure, pricing, providers, domains, countrySets, destinations } = header
  // Members are read in the order in which they were written.
  const { u8, u16, u32, u64, f64, rest } = createReader(columns)
  const keys = u32()
  const shown = u32()
  const places = { chunkOf: u16(), start: u32(), head: u32(), length: u32() }
  const about = { type: u8(), provider: u32(), domain: u32(), countries: u32(), mixed: u8(), anywhere: u8() }
  const numbers = { coverage: f64(), cpm: f64(), percent: f64(), currency: u32() }
  const deployments = { at: u32(), destination: u32(), words: u32(), key: u32(), destinations }
  const offers = { at: u32(), slice: u16(), row: u32(), stands: u8(), countries: u32() }
  const digests = { structure: u32(), core: u32(), pricing: u32() }
  const tree = { structure: u8(), pricing: u8(), unseen: u8() }
  const slices = header.slices.map((slice) => remembered(slice, u64(), u32()))
  return {
    ...{ id, count, keys, shown, structure, pricing, deployments, offers, digests, tree, slices },
    rows: { chunks: rest(), ...places },
    facts: { ...about, ...numbers, providers, domains, countrySets },
    stamps: new Map(header.stamps),
    memory: NO_MEMORY,
  }
}
