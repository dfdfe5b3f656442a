/**
 * Remembers what happened to each signal of the public layer: when it was created, updated, priced or removed, and its
 * price, coverage and sellers before and after. Each published generation is compared with the one before, in portions;
 * generations that come faster than they can be compared count as one.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Change, changesBetween } from '../events/changes.js'
import { currencyCode } from '../merge/pricing.js'
import { handleAt, rowAt, type Snapshot } from '../snapshot/snapshot.js'
import type { SignalChange, SignalChanges } from '../store/records/signal-changes.js'
import { createMeter, type InPortions, inTurns } from '../threads/portions.js'

const MOST_SINGLE = 1_000 // changes of one generation; of more, only their number is kept
const UNITS_A_CHANGE = 200 // parsing two rows costs as much as looking at this many signals
const MOST_TOLD = 200 // changes of one signal

type SignalChangesOptions = {
  records: SignalChanges
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
export function createSignalChangeLog({ records, onTrouble }: SignalChangesOptions) {
  let next: { before: Snapshot; after: Snapshot; at: number } | undefined
  let working: Promise<void> | undefined
  let closed = false

  async function catchUp(): Promise<void> {
    while (next && !closed) {
      const { before, after, at } = next
      next = undefined
      try {
        await records.note(await inTurns(notedBetween(before, after, at)))
      } catch (error) {
        onTrouble(`what changed in the feed is not kept: ${String(error)}`)
      }
    }
    working = undefined
  }

  return {
    /** Call it when `after` replaced `before` at `at`, ms since the epoch. Without `before` nothing is compared. */
    note(before: Snapshot | undefined, after: Snapshot, at: number): void {
      if (!before) return
      next = { before: next?.before ?? before, after, at }
      working ??= catchUp()
    },
    /** The last changes of a signal, oldest first. Rejects with `StorageUnavailable`. */
    async of(handle: string): Promise<object[]> {
      const found = await records.of(handle, MOST_TOLD)
      return found.map(({ at, kind, told }) => ({ at: new Date(at).toISOString(), kind, ...told }))
    },
    async close(): Promise<void> {
      closed = true
      await working
    },
  }
}
