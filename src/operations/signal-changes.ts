/**
 * Remembers what happened to each signal of the public layer: when it came, left, moved, and what its price, coverage and
 * sellers were before and after. Each published generation is compared with the one before, in portions; generations that
 * come faster than they are compared are taken together.
 */
import { isDeepStrictEqual } from 'node:util'
import { type Change, changesBetween } from '../events/changes.js'
import { currencyCode } from '../merge/pricing.js'
import { handleAt, rowAt, type Snapshot } from '../snapshot/snapshot.js'
import type { SignalChange, SignalChanges } from '../store/records/signal-changes.js'
import { createMeter, type InPortions, inTurns } from '../threads/portions.js'

const MOST_SINGLE = 1_000 // of one generation: beyond, it is kept that so many changed, and not which
const UNITS_A_CHANGE = 200 // two rows that are parsed cost as much as looking at so many signals
const MOST_TOLD = 200

type SignalChangesOptions = {
  records: SignalChanges
  onTrouble(message: string): void
}

/** What people look for first, from the columns: the lowest CPM, the coverage in percent, how many sell it. */
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
    /** A generation took the place of another at `at`, ms. The first of a process is compared with nothing. */
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
