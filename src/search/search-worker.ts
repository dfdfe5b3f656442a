/**
 * Builds the search index, in its own thread unless the feed is small; input and output are in shared memory
 * (docs/decisions.md#memory-and-threads).
 */
import { parentPort, workerData } from 'node:worker_threads'
import { createMeter, drained, type InPortions, rowUnits } from '../process/portions.js'
import type { Rows, Snapshot } from '../snapshot/snapshot.js'
import { createSearchIndexBuilder, type SearchableRow, type SearchIndex } from './search-index.js'
import type { Synonyms } from './synonyms.js'

/**
 * The platforms where most of a feed can be activated: the ones that questions may name. Upstreams may invent
 * platforms, and comparing a question with all of them would cost too much.
 */
const MOST_PLATFORMS = 1_000

/** Counts the rows with a platform. */
function createPlatformTally() {
  const uses = new Map<string, number>()
  return {
    add({ deployments = [] }: SearchableRow): void {
      for (const { platform } of deployments) {
        if (platform !== undefined) uses.set(platform, (uses.get(platform) ?? 0) + 1)
      }
    },
    /** The most used first. */
    commonest: (): string[] =>
      [...uses]
        .sort(([one, first], [other, second]) => second - first || (one < other ? -1 : 1))
        .slice(0, MOST_PLATFORMS)
        .map(([platform]) => platform),
  }
}

export type SearchBuild = Pick<Snapshot, 'count' | 'rows'>
export type SearchBuilt = {
  index: SearchIndex
  /** Ids of the platforms that a question may name. */
  platforms: readonly string[]
}

const decoder = new TextDecoder()

function rowOf({ chunks, chunkOf, start, length }: Rows, entry: number): SearchableRow {
  const from = start[entry] as number
  const chunk = chunks[chunkOf[entry] as number] as Uint8Array
  return JSON.parse(decoder.decode(chunk.subarray(from, from + (length[entry] as number)))) as SearchableRow
}

/** Row `i` of the index is entry `i` of the snapshot; withheld entries have no words. */
export function* indexInPortions({ count, rows }: SearchBuild, synonyms: Synonyms): InPortions<SearchBuilt> {
  const meter = createMeter()
  const builder = createSearchIndexBuilder(synonyms)
  const platforms = createPlatformTally()
  for (let entry = 0; entry < count; entry += 1) {
    if (rows.length[entry] === 0) {
      builder.skip()
      continue
    }
    const row = rowOf(rows, entry)
    builder.add(row)
    platforms.add(row)
    meter.did(rowUnits(rows.length[entry] as number))
    if (meter.isDue()) yield
  }
  return { index: yield* builder.finishing(), platforms: platforms.commonest() }
}

/** `workerData`: the synonyms, compiled once by whoever started the thread. */
parentPort?.on('message', (build: SearchBuild) =>
  parentPort?.postMessage(drained(indexInPortions(build, workerData))),
)
