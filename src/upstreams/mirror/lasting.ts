/**
 * For how long what is held may be shown: its rows since the upstream last confirmed them, and a part that the upstream cannot give
 * since it last gave that part, which may be longer ago.
 */
import type { Clock } from '../../net/clock.js'
import { bareRows } from '../rows/bare-rows.js'
import { type Outages, PARTS, type Part, type Slice } from '../rows/slice.js'
import { type HeldSlice, isOver } from './mirror.js'
import type { Pace } from './scope-setting.js'

/** The parts that stand in for what the upstream cannot give now, each with when it was last given. */
function standing(outages: Outages = {}): [Part, number][] {
  return PARTS.flatMap((part): [Part, number][] => {
    const at = outages[part]
    return at === undefined || at === 0 ? [] : [[part, at]]
  })
}

/**
 * Without the parts that are too old: also without those that a row has stated itself since, because when each row was given is not
 * kept. The next reading brings these back.
 */
export async function lasting(held: HeldSlice, now: number, dropAfterMs: number): Promise<HeldSlice> {
  const over = standing(held.slice.outages).flatMap(([part, at]) =>
    isOver(at, now, dropAfterMs) ? [part] : [],
  )
  if (over.length === 0) return held
  const outages = { ...held.slice.outages, ...Object.fromEntries(over.map((part) => [part, 0])) }
  return { ...held, slice: { ...held.slice, ...(await bareRows(held.slice, over)), outages } }
}

type AgeingOptions = {
  clock: Clock
  pace(): Pick<Pace, 'staleAfterMs' | 'dropAfterMs'>
  held(): HeldSlice | undefined
  /** The rows have not been confirmed for a while. */
  onStale(): void
  /** The rows are too old. */
  onOver(): void
  /** A part of the rows was too old: what is left of what is held. */
  onLess(left: HeldSlice): void
}

/** Watches what is held become old: the rows and their parts by one timer, set for the first of them. */
export function createAgeing({ clock, pace, held, onStale, onOver, onLess }: AgeingOptions) {
  let [cancelStale, cancelNext] = [() => {}, () => {}]
  let shedding: Slice | undefined // is being written without its old parts
  let isStopped = false

  /** Rows that come meanwhile have times of their own; a confirmation of the same rows counts. */
  async function shed(from: HeldSlice): Promise<void> {
    shedding = from.slice
    const left = await lasting(from, clock.now(), pace().dropAfterMs)
    if (shedding === from.slice) shedding = undefined
    const now = held()
    if (isStopped || now?.slice !== from.slice) return
    if (left.slice === from.slice) watch()
    else onLess({ ...left, confirmedAt: now.confirmedAt })
  }

  function age(): void {
    const now = held()
    if (!now) return
    if (isOver(now.confirmedAt, clock.now(), pace().dropAfterMs)) onOver()
    else if (shedding !== now.slice) void shed(now)
  }

  /** What is held, or its pace, is another one. */
  function watch(): void {
    cancelStale()
    cancelNext()
    const now = held()
    if (!now || isStopped) return
    const { staleAfterMs, dropAfterMs } = pace()
    const first = Math.min(now.confirmedAt, ...standing(now.slice.outages).map(([, at]) => at))
    cancelStale = clock.after(now.confirmedAt + staleAfterMs + 1 - clock.now(), onStale)
    cancelNext = clock.after(first + dropAfterMs - clock.now(), age)
  }

  return {
    watch,
    stop(): void {
      isStopped = true
      cancelStale()
      cancelNext()
    },
  }
}
