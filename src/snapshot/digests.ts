/**
 * Digests of what a snapshot holds, from which versions are made (docs/decisions.md#snapshots-and-versions): of the parts of a row,
 * so that a reader's version covers exactly the parts it sees, and of the whole feed, updated in time proportional to the
 * changes ("content-addressed"). Signals fall into buckets by the first bits of their key, each bucket has a digest, and the root is
 * the digest of those. Withheld signals change no version, because nobody sees them. They are entries all the same: two snapshots
 * with one id must also agree on which entry is which signal.
 */
import { type BinaryLike, createHash, hash } from 'node:crypto'
import { bufferOf } from '../adcp/json.js'
import type { ActivationKey } from '../adcp/signal.js'
import { countBelow, WORDS } from '../merge/keys.js'
import { coreOf, type Row } from '../merge/row.js'
import { remembered } from '../process/remembered.js'
import { u8 } from '../process/shared-memory.js'
import type { Snapshot } from './snapshot.js'

const BUCKET_BITS = 10
const BUCKETS = 2 ** BUCKET_BITS
const DIGEST_BYTES = 32
const NOTHING = new Uint8Array(DIGEST_BYTES)

/** The first 128 bits of SHA-256, as numbers for a column: low byte first, so that it holds the digest's bytes in their order. */
export function digestWords(content: NodeJS.ArrayBufferView | string): readonly number[] {
  const text = hash('sha256', content as BinaryLike, 'binary')
  const word = (at: number) =>
    (text.charCodeAt(at) |
      (text.charCodeAt(at + 1) << 8) |
      (text.charCodeAt(at + 2) << 16) |
      (text.charCodeAt(at + 3) << 24)) >>>
    0
  return [word(0), word(4), word(8), word(12)]
}

/** 128 bits for a token: enough that nobody finds two contents with the same one. */
export function digestText(content: NodeJS.ArrayBufferView | string): string {
  return hash('sha256', content as BinaryLike, 'base64url').slice(0, 22)
}

/** The same digest over content that arrives in portions. */
export function createDigest() {
  const sum = createHash('sha256')
  return {
    update: (content: NodeJS.ArrayBufferView) => void sum.update(content),
    text: () => sum.digest('base64url').slice(0, 22),
  }
}

export type Words = readonly number[]

/** Few distinct deployments and prices occur in millions of rows, so each is hashed once. */
const stateWords = remembered<Words>(digestWords)
const priceWords = remembered<Words>(digestWords)

const NO_KEY = [0, 0] as const

/** Half a digest is enough, because keys are only compared with other keys of the same deployment. */
export function keyWords(key: ActivationKey | undefined): readonly [number, number] {
  if (!key) return NO_KEY
  const [first = 0, second = 0] = digestWords(JSON.stringify(key))
  return [first, second]
}

/** The hash of the prices of a row without prices. */
export const NO_PRICES = digestWords('')

export type RowWords = {
  /** Everything except the prices: the digest of the next two. */
  structure: Words
  core: Words
  /** In the row's order. */
  deployments: readonly Words[]
  pricing: Words
}

/** Memory for the digests behind `structure`: to hash fresh memory of a few bytes costs more than the hash. */
const USUAL = Array.from({ length: 16 }, (_, deployments) => new Uint32Array(WORDS * (deployments + 1)))

/** By a loop: for four numbers the engine's own copy costs more. */
function putWords(to: Uint32Array, at: number, words: Words): void {
  for (let word = 0; word < WORDS; word += 1) to[at * WORDS + word] = words[word] as number
}

/** The hashes of one row as it is written. `core`: that of its core, where it is known. */
export function rowWords(row: Row, core = digestWords(coreOf(row))): RowWords {
  const deployments = row.states.map(stateWords)
  const parts = USUAL[deployments.length] ?? new Uint32Array(WORDS * (deployments.length + 1))
  putWords(parts, 0, core)
  for (let at = 0; at < deployments.length; at += 1) putWords(parts, at + 1, deployments[at] as Words)
  const pricing = row.prices === row.tail ? digestWords(row.tail) : priceWords(row.prices)
  return { structure: digestWords(parts), core, deployments, pricing }
}

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
  const pairs = (['structure', 'pricing', 'unseen'] as const).map((of) => [bufferOf(a[of]), b[of]] as const)
  return Array.from({ length: BUCKETS }, (_, bucket) => bucket).filter((bucket) => {
    const [from, end] = [bucket * DIGEST_BYTES, (bucket + 1) * DIGEST_BYTES]
    return pairs.some(([one, other]) => one.compare(other, from, end, from, end) !== 0)
  })
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
