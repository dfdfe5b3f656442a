/**
 * What happened to the signals of the public layer, kept in the storage for operators: when each was created, updated, priced or
 * removed, and its price, coverage and sellers before and after. Each published generation is compared with the one before, and
 * generations that come faster than they can be compared count as one.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Change, changesBetween } from '../events/changes.js'
import { currencyCode } from '../merge/row.js'
import { type Clock, within } from '../net/clock.js'
import { inOwnTurns } from '../process/portion-turns.js'
import { createMeter, type InPortions } from '../process/portions.js'
import { handleAt, rowAt, type Snapshot } from '../snapshot/snapshot.js'
import type { SignalChange, SignalChanges } from '../store/records/activity.js'

const MOST_SINGLE = 1_000 // changes of one generation; of more, only their number is kept
const UNITS_A_CHANGE = 200 // parsing two rows costs as much as looking at this many signals
const MOST_TOLD = 200 // changes of one signal
const TOLD_WITHIN_MS = 5_000

type SignalHistoryOptions = {
  records: SignalChanges
  clock: Clock
  onTrouble(message: string): void
}

/** What people look for first, from the columns: the lowest CPM, the coverage in percent, the number of offers. */
function standingOf({ facts, offers }: Snapshot, entry: number): object {
  const currency = currencyCode(facts.currency[entry] as number)
  const [cpm, coverage] = [facts.cpm[entry] as number, facts.coverage[entry] as number]
  const stands = offers.stands.subarray(offers.at[entry], offers.at[entry + 1])
  return {
    ...(!Number.isNaN(cpm) && { cpm, ...(currency && { currency }) }),
    ...(!Number.isNaN(coverage) && { coverage }),
    sellers: stands.reduce((sum, one) => sum + one, 0),
  }
}

function fieldsOf(before: Record<string, unknown>, after: Record<string, unknown>): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].filter((name) => name !== 'ext' && !isDeepStrictEqual(before[name], after[name])).sort()
}

function toldOf(before: Snapshot, after: Snapshot, change: Change): object {
  if (change.kind === 'created') return { after: standingOf(after, change.after) }
  if (change.kind === 'removed') return { before: standingOf(before, change.before) }
  return {
    ...{ before: standingOf(before, change.before), after: standingOf(after, change.after) },
    fields: fieldsOf(rowAt(before, change.before), rowAt(after, change.after)),
  }
}

type Noted = SignalChange & { handle: string }

function* notedBetween(before: Snapshot, after: Snapshot, at: number): InPortions<Noted[]> {
  const { count, changes } = yield* changesBetween(before, after, MOST_SINGLE)
  if (count > MOST_SINGLE) return [{ handle: '', at, kind: 'many', told: { count } }]
  const meter = createMeter()
  const noted: Noted[] = []
  for (const change of changes) {
    if (change.kind === 'keyed') continue
    meter.did(UNITS_A_CHANGE)
    if (meter.isDue()) yield
    const handle = 'after' in change ? handleAt(after, change.after) : handleAt(before, change.before)
    noted.push({ handle, at, kind: change.kind, told: { ...toldOf(before, after, change) } })
  }
  return noted
}

/** The changes of signals, kept in the storage; what cannot be kept is told to `onTrouble`. */
export function createSignalHistory({ records, clock, onTrouble }: SignalHistoryOptions) {
  /** What waits to be compared: several generations that come meanwhile are one. */
  let next: { before: Snapshot; after: Snapshot; at: number } | undefined
  let keeping = Promise.resolve()
  let keptTimes = 0
  let closed = false

  async function keepNext(): Promise<void> {
    if (!next || closed) return
    const { before, after, at } = next
    next = undefined
    try {
      await records.note(await inOwnTurns(notedBetween(before, after, at)))
      keptTimes += 1
    } catch (error) {
      onTrouble(`what changed in the feed is not kept: ${String(error)}`)
    }
  }

  return {
    /** Call it when `after` replaced `before` at `at`, ms since the epoch. Without `before` nothing is compared. */
    note(before: Snapshot | undefined, after: Snapshot, at: number): void {
      if (!before) return
      if (!next) keeping = keeping.then(keepNext)
      next = { before: next?.before ?? before, after, at }
    },
    /** How often something was kept: another number says that `of` may give more. */
    keptTimes: () => keptTimes,
    /**
     * The last changes of a signal that are kept, oldest first; undefined where the storage does not tell them soon, or the caller
     * has left. Rejects with `StorageUnavailable`.
     */
    async of(handle: string, signal: AbortSignal): Promise<object[] | undefined> {
      const limits = { timeoutMs: TOLD_WITHIN_MS, signal, clock }
      const found = await within(records.of(handle, MOST_TOLD), limits, () => undefined)
      return found?.map(({ at, kind, told }) => ({ at: new Date(at).toISOString(), kind, ...told }))
    },
    async close(): Promise<void> {
      closed = true
      await keeping
    },
  }
}

export type SignalHistory = ReturnType<typeof createSignalHistory>
