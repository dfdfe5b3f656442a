/**
 * The digest of the whole feed, updated in time proportional to the changes. Signals fall into buckets by the first
 * bits of their key, each bucket has a digest, and the root is the digest of those
 * (docs/decisions.md#snapshots-and-versions, "content-addressed"). Withheld signals change no version, because nobody
 * sees them. They are entries all the same: two snapshots with one id must also agree on which entry is which signal.
 */
import { hash } from 'node:crypto'
import { u8 } from './columns.js'
import { countBelow, digestText, WORDS } from './keys.js'
import type { Snapshot } from './snapshot.js'

const BUCKET_BITS = 10
const BUCKETS = 2 ** BUCKET_BITS
const DIGEST_BYTES = 32
const NOTHING = new Uint8Array(DIGEST_BYTES)

/** The bucket of an entry. */
export const bucketOf = (keys: Uint32Array, entry: number) =>
  (keys[entry * WORDS] as number) >>> (32 - BUCKET_BITS)

/** The first entry of a bucket; for an empty bucket, the place where it would be. */
function firstIn(bucket: number, keys: Uint32Array, count: number): number {
  return countBelow(keys, count, Uint32Array.of(bucket << (32 - BUCKET_BITS), 0, 0, 0))
}

/** The entries of a bucket: the first one, and one past the last. */
export function bucketEntries(
  { keys, count }: Pick<Snapshot, 'keys' | 'count'>,
  bucket: number,
): [from: number, end: number] {
  const end = bucket + 1 < BUCKETS ? firstIn(bucket + 1, keys, count) : count
  return [firstIn(bucket, keys, count), end]
}

/** The buckets in which two snapshots differ in anything that a reader may see. */
export function differingBuckets(a: Snapshot['tree'], b: Snapshot['tree']): number[] {
  const differs = (one: Uint8Array, other: Uint8Array, bucket: number) => {
    const [from, end] = [bucket * DIGEST_BYTES, (bucket + 1) * DIGEST_BYTES]
    return Buffer.compare(one.subarray(from, end), other.subarray(from, end)) !== 0
  }
  return Array.from({ length: BUCKETS }, (_, bucket) => bucket).filter(
    (bucket) =>
      differs(a.structure, b.structure, bucket) ||
      differs(a.pricing, b.pricing, bucket) ||
      differs(a.unseen, b.unseen, bucket),
  )
}

function everyBucket({ keys, count }: Hashed): Set<number> {
  const buckets = new Set<number>()
  for (let entry = 0; entry < count; entry += 1) buckets.add(bucketOf(keys, entry))
  return buckets
}

type Hashed = Pick<Snapshot, 'count' | 'keys' | 'rows' | 'digests' | 'deployments'>

function gathered(column: Uint32Array, entries: readonly number[]): Uint32Array {
  const words = new Uint32Array(entries.length * WORDS)
  entries.forEach((entry, at) => {
    for (let word = 0; word < WORDS; word += 1)
      words[at * WORDS + word] = column[entry * WORDS + word] as number
  })
  return words
}

/**
 * The parts of a snapshot that no digest of rows covers: the activation keys of published signals, and the keys of
 * withheld ones.
 */
function unseen(
  { deployments, keys }: Hashed,
  shown: readonly number[],
  withheld: readonly number[],
): Uint32Array {
  const words: number[] = withheld.length > 0 ? [withheld.length] : []
  for (const entry of shown) {
    for (let one = deployments.at[entry] as number; one < (deployments.at[entry + 1] as number); one += 1) {
      words.push(deployments.key[one * 2] as number, deployments.key[one * 2 + 1] as number)
    }
  }
  for (const entry of withheld) words.push(...keys.subarray(entry * WORDS, (entry + 1) * WORDS))
  return Uint32Array.from(words)
}

/** An empty bucket keeps a digest of zeros. */
function put(into: Uint8Array, bucket: number, content: Uint32Array): void {
  const digest = content.length === 0 ? NOTHING : Buffer.from(hash('sha256', content, 'hex'), 'hex')
  into.set(digest, bucket * DIGEST_BYTES)
}

function copied(bytes: Uint8Array | undefined): Uint8Array {
  const copy = u8(BUCKETS * DIGEST_BYTES)
  if (bytes) copy.set(bytes)
  return copy
}

/** `touched`: the buckets that may differ from the tree `before`. Without that tree, all buckets are hashed. */
export function hashTree(
  snapshot: Hashed,
  before: Snapshot['tree'] | undefined,
  touched: ReadonlySet<number>,
): { tree: Snapshot['tree']; structure: string; pricing: string; id: string } {
  const tree = {
    structure: copied(before?.structure),
    pricing: copied(before?.pricing),
    unseen: copied(before?.unseen),
  }
  for (const bucket of before ? touched : everyBucket(snapshot)) {
    const shown: number[] = []
    const withheld: number[] = []
    const [from, end] = bucketEntries(snapshot, bucket)
    for (let entry = from; entry < end; entry += 1) {
      if (snapshot.rows.length[entry] === 0) withheld.push(entry)
      else shown.push(entry)
    }
    put(tree.structure, bucket, gathered(snapshot.digests.structure, shown))
    put(tree.pricing, bucket, gathered(snapshot.digests.pricing, shown))
    put(tree.unseen, bucket, unseen(snapshot, shown, withheld))
  }
  const structure = digestText(tree.structure)
  const pricing = digestText(tree.pricing)
  return { tree, structure, pricing, id: digestText(`${structure} ${pricing} ${digestText(tree.unseen)}`) }
}
