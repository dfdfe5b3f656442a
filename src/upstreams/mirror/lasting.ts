/**
 * What of the rows that are held may be shown, and for how long: rows since the upstream last confirmed them, a part that it cannot
 * give since it last gave that part, which may be longer ago, and prices that it tells one credential alone while the operator says
 * so (docs/upstreams.md, "Prices for accounts only"). What is saved keeps where it came from, and the current setting decides.
 */
import type { Clock } from '../../net/clock.js'
import { bareRows } from '../rows/bare-rows.js'
import { type Outages, PARTS, type Part, type Slice } from '../rows/slice.js'
import { showsPrices } from '../walk/account-prices.js'
import { type HeldSlice, isOver } from './mirror.js'
import { PUBLIC, type ScopeSetting } from './scope-setting.js'

/** The parts that stand in for what the upstream cannot give now, each with when it was last given. */
function standing(outages: Outages = {}): [Part, number][] {
  return PARTS.flatMap((part): [Part, number][] => {
    const at = outages[part]
    return at === undefined || at === 0 ? [] : [[part, at]]
  })
}

const mayShow = ({ slice }: HeldSlice, { scope, entry }: ScopeSetting) =>
  scope.name !== PUBLIC || showsPrices(slice.pricedFor, entry)

/**
 * What of it may be shown under this setting, whatever it was read under. A part that is too old leaves every row, also one that
 * has stated it since, because when each row was given is not kept; the next reading brings these back.
 */
export async function lasting(held: HeldSlice, now: number, setting: ScopeSetting): Promise<HeldSlice> {
  const over = standing(held.slice.outages).flatMap(([part, at]) =>
    isOver(at, now, setting.pace.dropAfterMs) ? [part] : [],
  )
  const isUnpriced = !mayShow(held, setting)
  const parts = PARTS.filter((part) => over.includes(part) || (isUnpriced && part === 'pricing'))
  if (parts.length === 0) return held
  const { pricedFor, ...slice } = held.slice
  const out = parts.filter((part) => slice.outages?.[part] !== undefined)
  const outages = { ...slice.outages, ...Object.fromEntries(out.map((part) => [part, 0])) }
  return {
    ...held,
    ...(isUnpriced && { isUnpriced }),
    slice: {
      ...{ ...slice, ...(await bareRows(held.slice, parts)) },
      ...(slice.outages && { outages }),
      ...(pricedFor !== undefined && !parts.includes('pricing') && { pricedFor }),
    },
  }
}

type AgeingOptions = {
  clock: Clock
  setting(): ScopeSetting
  held(): HeldSlice | undefined
  /** The rows have not been confirmed for a while. */
  onStale(): void
  /** The rows are too old. */
  onOver(): void
  /** A part of the rows was too old: what is left of what is held. */
  onLess(left: HeldSlice): void
}

/** Watches what is held become old: the rows and their parts by one timer, set for the first of them that may not be shown. */
export function createAgeing({ clock, setting, held, onStale, onOver, onLess }: AgeingOptions) {
  let [cancelStale, cancelNext] = [() => {}, () => {}]
  let shedding: Slice | undefined // is being written without its old parts
  let isStopped = false

  /** Rows that come meanwhile have times of their own; a confirmation of the same rows counts. */
  async function shed(from: HeldSlice): Promise<void> {
    shedding = from.slice
    const left = await lasting(from, clock.now(), setting())
    if (shedding === from.slice) shedding = undefined
    const now = held()
    if (isStopped || now?.slice !== from.slice) return
    if (left.slice === from.slice) watch()
    else onLess({ ...left, confirmedAt: now.confirmedAt })
  }

  function age(): void {
    const now = held()
    if (!now) return
    if (isOver(now.confirmedAt, clock.now(), setting().pace.dropAfterMs)) onOver()
    else if (shedding !== now.slice) void shed(now)
  }

  /** What is held, or its setting, is another one. */
  function watch(): void {
    cancelStale()
    cancelNext()
    const now = held()
    if (!now || isStopped) return
    const { staleAfterMs, dropAfterMs } = setting().pace
    const times = [now.confirmedAt, ...standing(now.slice.outages).map(([, at]) => at)]
    const overAt = mayShow(now, setting()) ? Math.min(...times) + dropAfterMs : clock.now()
    cancelStale = clock.after(now.confirmedAt + staleAfterMs + 1 - clock.now(), onStale)
    cancelNext = clock.after(overAt - clock.now(), age)
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
