/**
 * Which memory that a worker posts was posted before. Shared memory that is posted becomes a new object on
 * the other side, whoever sent it before: what is known of it by its object, such as the names under which it is stored,
 * would be forgotten each time. So the worker numbers its views, and the host goes on with those that it has.
 */

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
