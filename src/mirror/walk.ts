/**
 * One walk over the pages of a feed, whoever makes it: all pages are one feed, or the walk says that they are not (specification,
 * "mid-pagination"). FeedVersions have no parts that a client could check against the rows, so these are checked instead: every page
 * carries the same ones, and as many rows come as any page announced, the same number on each that says one.
 */
import { isRecord } from '../adcp/json.js'
import type { CopyState } from './copy.js'

const PAGE = 100
/** A feed that moves during so many walks more is left alone. */
export const MAX_RESTARTS = 10

type Answer = Readonly<Record<string, unknown>>
export type FeedVersions = Pick<CopyState, 'version' | 'pricing' | 'scope'>

type WalkedPage = {
  kind: 'page'
  signals: readonly unknown[]
  /** How many signals all pages announce. */
  total: number | undefined
  /** The cursor of the next page; undefined when this is the last one, and the walk is whole. */
  next: string | undefined
}

type WalkStep =
  | WalkedPage
  /** The feed is another one than on the first page: what was read is thrown away. */
  | { kind: 'moved' }
  /** This is no valid feed. */
  | { kind: 'unsound'; message: string }

/** The arguments that ask for a page, without a cursor for the first one. */
export const pageAt = (cursor?: string) => ({
  pagination: { max_results: PAGE, ...(cursor !== undefined && { cursor }) },
})

/** The value, when it is a text that says something. */
export const textIn = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)

/** Those that an answer names. */
export function versionsOf(answer: Answer): FeedVersions {
  const version = textIn(answer.wholesale_feed_version)
  const pricing = textIn(answer.pricing_version)
  const scope = textIn(answer.cache_scope)
  return { ...(version && { version }), ...(pricing && { pricing }), ...(scope && { scope }) }
}

/** Whether both are of the same feed. */
export function areOfOneFeed(one: FeedVersions, other: FeedVersions): boolean {
  return one.version === other.version && one.pricing === other.pricing && one.scope === other.scope
}

/** The page that an answer is by itself, or why it is none. */
function pageOf({ signals, pagination }: Answer): WalkedPage | string {
  if (!Array.isArray(signals)) return 'a page holds no list of signals'
  const { has_more, cursor, total_count } = isRecord(pagination) ? pagination : {}
  const next = has_more === true ? textIn(cursor) : undefined
  if (has_more === true && next === undefined) {
    return 'it says that more pages follow, and not how they are asked for'
  }
  return { kind: 'page', signals, total: typeof total_count === 'number' ? total_count : undefined, next }
}

const unsound = (message: string): WalkStep => ({ kind: 'unsound', message })

export function createWalk() {
  const cursors = new Set<string>()
  let versions: FeedVersions | undefined
  let announced: number | undefined
  let received = 0

  return {
    /** What the next answer is to this walk. */
    take(answer: Answer): WalkStep {
      versions ??= versionsOf(answer)
      if (!areOfOneFeed(versions, versionsOf(answer))) return { kind: 'moved' }
      const page = pageOf(answer)
      if (typeof page === 'string') return unsound(page)
      const { signals, next, total = announced } = page
      received += signals.length
      announced ??= total
      if (total !== announced) return { kind: 'moved' }
      if (next === undefined && announced !== undefined && announced !== received) {
        return unsound(`it announced ${announced} signals and gave ${received}`)
      }
      if (next !== undefined && cursors.has(next)) return unsound('its pages lead back to one that was read')
      if (next !== undefined) cursors.add(next)
      return page
    },
    /** Those of the first page, and so of all of them. */
    versions: (): FeedVersions => versions ?? {},
  }
}
