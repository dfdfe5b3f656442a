/** One page of an answer: rows as this reader may see them, in the answer's order. */
import type { Criteria } from '../../feed/canonical.js'
import { createGrants } from '../../feed/grants.js'
import { createPages } from '../../feed/page.js'
import type { Reader } from '../../feed/query.js'
import { viewOf } from '../../feed/view.js'
import type { Snapshot } from '../../snapshot/snapshot.js'
import { inTurns } from '../../threads/portions.js'
import { type Corpus, placeOf } from './hits.js'

const COMMA = new TextEncoder().encode(',')

export type RowSelection = { criteria: Criteria; reader: Reader; fields?: readonly string[] }

/** One byte for each entry of the snapshot: 1 for those given. */
export function flagsOf(snapshot: Snapshot, entries: Uint32Array): Uint8Array {
  const flags = new Uint8Array(snapshot.count)
  for (const entry of entries) flags[entry] = 1
  return flags
}

/** Whether a hit passes the criteria. `entries`: the feed's entries that do, from `feed.see`. */
export async function createGate(corpus: Corpus, entries: Uint32Array, { criteria, reader }: RowSelection) {
  const { feed, extra } = corpus
  const inFeed = flagsOf(feed, entries)
  const inExtra = extra && flagsOf(extra, (await inTurns(viewOf(extra, criteria, reader))).entries)
  return (hit: number): boolean => (hit < feed.count ? inFeed[hit] : inExtra?.[hit - feed.count]) === 1
}

/** The rows of some hits, as pieces to be written in order, commas included. */
export function createRowPieces(corpus: Corpus, { criteria, reader, fields }: RowSelection) {
  const pagesOf = (snapshot: Snapshot) =>
    createPages(snapshot, {
      criteria,
      seesPrices: reader.visibility === 'full',
      grants: createGrants(snapshot, reader, criteria),
      ...(fields && { fields }),
    })
  const feedPages = pagesOf(corpus.feed)
  const extraPages = corpus.extra && pagesOf(corpus.extra)

  function rowPieces(hit: number): Uint8Array[] {
    const { snapshot, entry } = placeOf(corpus, hit)
    const pages = snapshot === corpus.feed ? feedPages : (extraPages ?? feedPages)
    return pages.rows(Uint32Array.of(entry))
  }

  return {
    rows: (hits: readonly number[]) =>
      hits.flatMap((hit, at) => (at === 0 ? rowPieces(hit) : [COMMA, ...rowPieces(hit)])),
    row: (hit: number) => JSON.parse(Buffer.concat(rowPieces(hit)).toString()) as Record<string, unknown>,
    warnings: (hits: readonly number[]) =>
      feedPages.partialCoverage(Uint32Array.from(hits.filter((hit) => hit < corpus.feed.count))),
  }
}
