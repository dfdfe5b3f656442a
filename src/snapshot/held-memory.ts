/**
 * Which memory of a snapshot was in an earlier one, across threads. Shared memory that is posted becomes a new object on
 * the other side, whoever sent it before: what is known of it by its object, such as the names under which it is stored,
 * would be forgotten with every build. So the worker numbers its views, and the host goes on with those that it has.
 */
import type { Snapshot } from './snapshot.js'
import { columnsOf, filled, TABLE, valueAt } from './table.js'

type Columns = Omit<Snapshot, 'slices'>

/** Columns and chunks, in the order in which `withViews` asks for them. */
export function viewsOf(snapshot: Columns): object[] {
  return [...columnsOf(TABLE, snapshot), ...snapshot.rows.chunks]
}

/** In the worker: the number of a view, the same as long as it exists. */
export function createViewNumbers(): (view: object) => number {
  const numbers = new WeakMap<object, number>()
  let last = 0
  return (view) => {
    const known = numbers.get(view)
    if (known !== undefined) return known
    last += 1
    numbers.set(view, last)
    return last
  }
}

/** In the host: gives for each view in turn the one that came first under its number. */
export function createHeldMemory() {
  const held = new Map<number, WeakRef<object>>()

  return (numbers: readonly number[]) => {
    for (const [number, view] of held) if (!view.deref()) held.delete(number)
    let at = 0
    return <View extends object>(view: View): View => {
      const number = numbers[at++] as number
      const known = held.get(number)?.deref()
      if (known) return known as View
      held.set(number, new WeakRef(view))
      return view
    }
  }
}

/** The snapshot over the views that `view` gives for its own. */
export function withViews(snapshot: Columns, view: <View extends object>(view: View) => View): Columns {
  const columns = filled(TABLE, (path, { kind }) => {
    const value = valueAt(snapshot, path) as object
    return kind === 'list' ? value : view(value)
  }) as Pick<Snapshot, keyof typeof TABLE>
  return { ...snapshot, ...columns, rows: { ...columns.rows, chunks: snapshot.rows.chunks.map(view) } }
}
