/** Reading answers in tests: whole pages as objects, whole walks as lists. */
import assert from 'node:assert/strict'
import type { Feed } from '../../src/feed/feed.js'
import type { Page, Reader, WholesaleAnswer, WholesaleQuery } from '../../src/feed/query.js'

export type Row = {
  signal_agent_segment_id: string
  signal_ref: { scope: string; signal_id: string }
  name: string
  deployments: { type: string; platform?: string; is_live: boolean; activation_key?: object }[]
  pricing_options?: { pricing_option_id: string; model: string; cpm?: number }[]
  ext: {
    tributary: { offers: { upstream: string; verdict: string; handle: string; deployments: string[] }[] }
  }
} & Record<string, unknown>

export function rowsOf(page: Pick<Page, 'rows' | 'count'>): Row[] {
  const rows = JSON.parse(`[${Buffer.concat(page.rows).toString()}]`) as Row[]
  assert.equal(rows.length, page.count)
  return rows
}

export function pageOf(answer: WholesaleAnswer): Page {
  if (answer.kind !== 'page') throw new Error(`a page was expected, ${JSON.stringify(answer)} came`)
  return answer
}

const MOST_PAGES = 1_000 // a walk that goes on for longer turns in circles

/** All pages of one walk. `between` runs after each page. */
export function walk(
  feed: Feed,
  query: Partial<WholesaleQuery>,
  reader: Reader,
  between: (page: number) => void = () => {},
): Page[] {
  const pages: Page[] = []
  let cursor: string | undefined
  do {
    const page = pageOf(
      feed.wholesale({ maxResults: 50, ...query, ...(cursor ? { cursor } : {}) }, reader, 0),
    )
    pages.push(page)
    assert.ok(pages.length <= MOST_PAGES, 'a walk was expected to end')
    cursor = page.cursor
    between(pages.length)
  } while (cursor)
  return pages
}
