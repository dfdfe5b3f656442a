/**
 * Looks at some pages of a feed whose token says that nothing changed. A token that matches proves little: one agent hashes its
 * first 500 rows only, others forget to move it (docs/decisions.md#a-token-is-checked).
 */
import { isRecord } from '../../adcp/json.js'
import { nextOwnPortion } from '../../process/portions.js'
import type { AgentOutcome, Payload } from '../agent/agent.js'
import type { ReadRows } from '../rows/read-rows.js'
import { digestNumbers, type Slice } from '../rows/slice.js'
import { moved, nextCursor, tokensOf } from './walk.js'

const EVERY_MS = 20 * 60 * 1_000
const PAGES = 2 // at each look: six an hour
const AFTER_A_FALSE_ALARM_MS = 24 * 60 * 60 * 1_000
const REMEMBERED = 64 // cursors of the last walk
const PORTION = 200_000 // digests between two portions: under a millisecond
const DISTRUSTED_MS = 7 * 24 * 60 * 60 * 1_000

type SpotCheckOptions = { now(): number; random(): number }

type Page = (cursor: string | undefined) => Promise<AgentOutcome>

function totalOf({ pagination }: Payload): number | undefined {
  const total = isRecord(pagination) ? pagination.total_count : undefined
  return typeof total === 'number' ? total : undefined
}

/** Whether the slice has every row of a page, byte for byte. */
async function holdsAll({ digests }: Slice, page: ReadRows): Promise<boolean> {
  const missing = new Map<number, Set<number>>() // high words by low word: numbers, where a bigint a row would be garbage
  const asked = digestNumbers(page.digests)
  for (let at = 0; at < asked.length; at += 2) {
    const highs = missing.get(asked[at] as number) ?? new Set()
    missing.set(asked[at] as number, highs.add(asked[at + 1] as number))
  }
  const held = digestNumbers(digests)
  for (let at = 0; at < held.length && missing.size > 0; at += 2) {
    if (at % (PORTION * 2) === 0) await nextOwnPortion()
    const highs = missing.get(held[at] as number)
    if (highs?.delete(held[at + 1] as number) && highs.size === 0) missing.delete(held[at] as number)
  }
  return missing.size === 0
}

/** Whether an agent's tokens are not believed, because its rows changed under an unchanged token in the last seven days. */
export function isDistrusted({ caughtAt }: { readonly caughtAt?: number }, now: number): boolean {
  return caughtAt !== undefined && now - caughtAt < DISTRUSTED_MS
}

/** For one feed; it begins with the pages of the first walk that it hears of. */
export function createSpotCheck({ now, random }: SpotCheckOptions) {
  let dueAt = 0 // the first `unchanged` of a process is looked at: what was saved may be old
  let cursors: string[] = []
  let offered = 0
  let total: number | undefined

  /** A fair choice among all cursors that were offered since the last walk began. */
  function remember(cursor: string): void {
    offered += 1
    if (cursors.length < REMEMBERED) cursors.push(cursor)
    else if (random() < REMEMBERED / offered) cursors[Math.floor(random() * REMEMBERED)] = cursor
  }

  function oneOf(places: (string | undefined)[]): string | undefined {
    return places.splice(Math.floor(random() * places.length), 1)[0]
  }

  return {
    isDue: () => now() >= dueAt,
    /** Hears of a page of a walk. */
    walked(cursor: string | undefined, outcome: AgentOutcome): void {
      if (outcome.kind !== 'answer' || outcome.payload.unchanged === true) return
      if (cursor === undefined) {
        cursors = []
        offered = 0
      } else remember(cursor)
      total = totalOf(outcome.payload) ?? total
    },
    /** Whether a page contradicts what is held, or its token has changed since. */
    async finds(slice: Slice, page: Page): Promise<boolean> {
      dueAt = now() + EVERY_MS
      let places: (string | undefined)[] = [undefined, ...cursors]
      for (let look = 0; look < PAGES && places.length > 0; look++) {
        const cursor = oneOf(places)
        const outcome = await page(cursor)
        // A passing fault, or expired cursors: neither proves anything.
        if (outcome.kind !== 'answer' || !Array.isArray(outcome.payload.signals)) {
          if (cursor !== undefined) cursors = []
          places = places.filter((each) => each === undefined)
          continue
        }
        const { payload, rows } = outcome
        const counted = totalOf(payload)
        if (moved(slice, tokensOf(payload))) return true
        if (total !== undefined && counted !== undefined && counted !== total) return true
        if (!(await holdsAll(slice, rows))) return true
        const next = nextCursor(payload)
        // After a restart there are no cursors yet.
        if (next !== undefined && !cursors.includes(next) && cursors.length < REMEMBERED) {
          cursors.push(next)
          places.push(next)
        }
      }
      return false
    },
    /** A full read found what was held: this agent's pages and counts differ for reasons of their own. */
    wasWrong(): void {
      dueAt = now() + AFTER_A_FALSE_ALARM_MS
    },
  }
}
