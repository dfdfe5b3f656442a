/**
 * A snapshot with the rows of its slices as parts for a storage, and back: whoever takes it up serves it without having
 * read an upstream. What two snapshots share are equal parts, which a storage that names bytes by their content keeps once.
 */
import { bytesOf, sharedBytes } from '../upstreams/rows/slab.js'
import type { Slice } from '../upstreams/rows/slice.js'
import { memoryOf, type Snapshot } from './snapshot.js'
import { snapshotFrom, snapshotParts } from './snapshot-parts.js'

/** A slice but for its numbers and bytes. */
type About = Omit<Slice, 'rows' | 'digests'>

type Header = { slices: (About & { chunks: number })[] }

export function wholeParts(snapshot: Snapshot): Uint8Array[] {
  const header: Header = {
    slices: snapshot.slices.map(({ slice: { rows, digests: _, ...about } }) => ({
      ...about,
      chunks: rows.chunks.length,
    })),
  }
  const rows = snapshot.slices.flatMap(({ slice: { rows } }) => [
    ...[rows.chunkOf, rows.start, rows.length].map(bytesOf),
    ...rows.chunks,
  ])
  return [Buffer.from(JSON.stringify(header)), ...rows, ...snapshotParts(snapshot)]
}

/** Undefined when the parts are another release's, or none. */
export function wholeSnapshot([head, ...parts]: readonly Uint8Array[]): Snapshot | undefined {
  if (!head) return undefined
  const { slices: abouts } = JSON.parse(Buffer.from(head).toString()) as Header
  let at = 0
  const next = () => sharedBytes(parts[at++] ?? new Uint8Array())
  const rows = abouts.map(({ chunks }): Slice['rows'] => {
    const [chunkOf, start, length] = [
      new Uint16Array(next()),
      new Uint32Array(next()),
      new Uint32Array(next()),
    ] as const
    const bytes = Array.from({ length: chunks }, () => new Uint8Array(next()))
    return { count: length.length, chunks: bytes, chunkOf, start, length }
  })
  const snapshot = snapshotFrom(parts.slice(at))
  if (!snapshot) return undefined
  const slices = snapshot.slices.map(({ slice: { digests }, keys }, index) => {
    const { chunks: _, ...about } = abouts[index] as Header['slices'][number]
    return { slice: { ...about, rows: rows[index] as Slice['rows'], digests }, keys }
  })
  return { ...snapshot, slices }
}

/** The snapshot as the one that follows `before`: what each of the two alone holds is counted. */
export function following(snapshot: Snapshot, before: Snapshot | undefined): Snapshot {
  return { ...snapshot, memory: memoryOf(snapshot, before) }
}
