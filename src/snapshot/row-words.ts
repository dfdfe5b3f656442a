/**
 * Hashes of the parts of a row, so that a reader's version covers exactly the parts it sees
 * (docs/decisions.md#snapshots-and-versions): the row without its deployments, each deployment with the offers that
 * give it, and the prices.
 */
import type { ActivationKey } from '../adcp/signal.js'
import type { Row } from '../merge/row.js'
import { remembered } from '../upstreams/rows/remembered.js'
import type { Column } from './columns.js'
import { digestWords, WORDS } from './keys.js'

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

/** The hashes of one row as it is written. */
export function rowWords(row: Row): RowWords {
  const core = digestWords(row.core)
  const deployments = row.states.map(stateWords)
  const parts = USUAL[deployments.length] ?? new Uint32Array(WORDS * (deployments.length + 1))
  parts.set(core)
  deployments.forEach((words, at) => {
    parts.set(words, WORDS * (at + 1))
  })
  const pricing = row.prices === row.tail ? digestWords(row.tail) : priceWords(row.prices)
  return { structure: digestWords(parts), core, deployments, pricing }
}

/** Appends one hash to a column: the one at place `at` of `from`. */
export function pushWords(column: Column<Uint32Array>, from: ArrayLike<number>, at = 0): void {
  column.pushAll(from, at * WORDS, WORDS)
}
