/**
 * Looks at some pages of a feed whose token says that nothing changed, because a token that matches proves little: one agent hashes
 * its first 500 rows only, others forget to move it (docs/decisions.md#a-token-is-checked).
 */
import { isRecord } from '../../adcp/json.js'
import { nextOwnPortion } from '../../process/portion-turns.js'
import type { AgentOutcome, Payload } from '../agent/agent.js'
import type { ReadRows } from '../rows/read-rows.js'
import { digestNumbers, type Slice } from '../rows/slice.js'
import { moved, tokensOf } from './tokens.js'
import { nextCursor } from './walk.js'

const CHECK_EVERY_MS = 20 * 60 * 1_000
const PAGES_A_CHECK = 2 // six an hour
const AFTER_A_FALSE_ALARM_MS = 24 * 60 * 60 * 1_000
const REMEMBERED_CURSORS = 64 // cursors of the last walk
const PORTION = 200_000 // digests between two portions: under a millisecond

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

/** What a walk showed of a feed: a fair choice among all cursors that it was offered, and the count of rows. */
type Trail = { cursors: string[]; offered: number; total?: number }

const noTrail = (): Trail => ({ cursors: [], offered: 0 })

/** For one feed; it begins with the pages of the first walk whose rows are held. */
export function createSpotCheck({ now, random }: SpotCheckOptions) {
  let dueAt = 0 // the first `unchanged` of a process is looked at: what was saved may be old
  let latest = noTrail() // of the walk that began last, whatever becomes of it
  let held = noTrail()

  function remember(cursor: string): void {
    const { cursors } = latest
    latest.offered += 1
    if (cursors.length < REMEMBERED_CURSORS) cursors.push(cursor)
    else if (random() < REMEMBERED_CURSORS / latest.offered)
      cursors[Math.floor(random() * REMEMBERED_CURSORS)] = cursor
  }

  function oneOf(places: (string | undefined)[]): string | undefined {
    return places.splice(Math.floor(random() * places.length), 1)[0]
  }

  return {
    isDue: () => now() >= dueAt,
    /** Hears of a page of a walk. */
    walked(cursor: string | undefined, outcome: AgentOutcome): void {
      if (outcome.kind !== 'answer' || outcome.payload.unchanged === true) return
      if (cursor === undefined) latest = noTrail()
      else remember(cursor)
      const total = totalOf(outcome.payload)
      if (total !== undefined) latest.total = total
    },
    /** The rows of the last walk are held now. A walk that came to nothing, or is doubted, showed another feed. */
    holds(): void {
      held = latest
    },
    /** Whether a page contradicts what is held, or its token has changed since. */
    async finds(slice: Slice, page: Page): Promise<boolean> {
      dueAt = now() + CHECK_EVERY_MS
      const { total } = held
      let places: (string | undefined)[] = [undefined, ...held.cursors]
      for (let look = 0; look < PAGES_A_CHECK && places.length > 0; look++) {
        const cursor = oneOf(places)
        const outcome = await page(cursor)
        // A passing fault, or expired cursors: neither proves anything.
        if (outcome.kind !== 'answer' || !Array.isArray(outcome.payload.signals)) {
          if (cursor !== undefined) held.cursors = []
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
        const { cursors } = held
        if (next !== undefined && !cursors.includes(next) && cursors.length < REMEMBERED_CURSORS) {
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
