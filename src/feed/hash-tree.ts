/**
 * The digest of the whole feed, kept current in the number of changes: signals fall into buckets by the first bits of
 * their key, each bucket has a digest, the root is the digest of those (DESIGN 5.5, "content-addressed").
 * Withheld signals take no part: what nobody sees moves no version.
 */
import { hash } from 'node:crypto'
import { u8 } from './columns.js'
import { digestText } from './digest.js'
import { WORDS } from './keys.js'
import type { HashTree, Snapshot } from './snapshot.js'

const BUCKET_BITS = 12
const BUCKETS = 2 ** BUCKET_BITS
const DIGEST_BYTES = 32

export const bucketOf = (keys: Uint32Array, entry: number) =>
  (keys[entry * WORDS] as number) >>> (32 - BUCKET_BITS)

type Hashed = Pick<Snapshot, 'count' | 'keys' | 'rows' | 'digests' | 'deployments'>

function gathered(column: Uint32Array, entries: readonly number[]): Uint32Array {
  const words = new Uint32Array(entries.length * WORDS)
  entries.forEach((entry, at) => {
    for (let word = 0; word < WORDS; word += 1)
      words[at * WORDS + word] = column[entry * WORDS + word] as number
  })
  return words
}

/** The activation keys of the entries: private, so they move no public token, but they are part of what a snapshot is. */
function secrets({ deployments }: Hashed, entries: readonly number[]): Uint32Array {
  const words: number[] = []
  for (const entry of entries) {
    for (let one = deployments.at[entry] as number; one < (deployments.at[entry + 1] as number); one += 1) {
      words.push(deployments.key[one * 2] as number, deployments.key[one * 2 + 1] as number)
    }
  }
  return Uint32Array.from(words)
}

function put(into: Uint8Array, bucket: number, content: Uint32Array): void {
  into.set(hash('sha256', content, 'buffer'), bucket * DIGEST_BYTES)
}

/** `touched(bucket)`: something in it may differ from the tree `before`. */
export function hashTree(
  snapshot: Hashed,
  before: HashTree | undefined,
  touched: (bucket: number) => boolean,
): { tree: HashTree; structure: string; pricing: string; id: string } {
  const fresh = () => u8(BUCKETS * DIGEST_BYTES)
  const tree = { structure: fresh(), pricing: fresh(), keys: fresh() }
  let entry = 0
  for (let bucket = 0; bucket < BUCKETS; bucket += 1) {
    const entries: number[] = []
    const isTouched = !before || touched(bucket)
    for (; entry < snapshot.count && bucketOf(snapshot.keys, entry) === bucket; entry += 1) {
      if (isTouched && snapshot.rows.length[entry] !== 0) entries.push(entry)
    }
    const at = bucket * DIGEST_BYTES
    if (before && !isTouched) {
      for (const part of ['structure', 'pricing', 'keys'] as const) {
        tree[part].set(before[part].subarray(at, at + DIGEST_BYTES), at)
      }
      continue
    }
    put(tree.structure, bucket, gathered(snapshot.digests.structure, entries))
    put(tree.pricing, bucket, gathered(snapshot.digests.pricing, entries))
    put(tree.keys, bucket, secrets(snapshot, entries))
  }
  const structure = digestText(tree.structure)
  const pricing = digestText(tree.pricing)
  return { tree, structure, pricing, id: digestText(`${structure} ${pricing} ${digestText(tree.keys)}`) }
}
