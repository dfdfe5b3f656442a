/** Numbers, and lists of them, in shared memory: any thread reads them directly. */

/** A list of lists: list `n` is in `items` from `starts[n]` up to (excluding) `starts[n + 1]`. */
export type Lists = { readonly starts: Uint32Array; readonly items: Uint32Array }

/** A list of numbers in shared memory. */
export function sharedNumbers(numbers: ArrayLike<number>): Uint32Array {
  const shared = new Uint32Array(new SharedArrayBuffer(numbers.length * Uint32Array.BYTES_PER_ELEMENT))
  shared.set(numbers)
  return shared
}

/** Numbers that come one by one. Four bytes each while they come, because a file may name a million. */
function createNumbers() {
  let numbers = new Uint32Array(16)
  let size = 0

  function add(number: number): void {
    if (size === numbers.length) {
      const larger = new Uint32Array(2 * size)
      larger.set(numbers)
      numbers = larger
    }
    numbers[size] = number
    size += 1
  }

  return { add, size: () => size, held: () => numbers.subarray(0, size) }
}

export type NewLists = ReturnType<typeof createLists>

/** Lists whose items come one by one, list after list. */
export function createLists() {
  const starts = createNumbers()
  const items = createNumbers()
  starts.add(0)

  /** The lists that are ended, until more is added. */
  function held(): Lists {
    return { starts: starts.held(), items: items.held() }
  }

  return {
    /** Adds an item to the list that is not ended yet. */
    add: items.add,
    /** Ends that list; the next item begins another. */
    end: () => starts.add(items.size()),
    held,
    /** The lists that are ended, in shared memory. */
    shared(): Lists {
      const lists = held()
      return { starts: sharedNumbers(lists.starts), items: sharedNumbers(lists.items) }
    },
  }
}

/** The same lists in shared memory. */
export function sharedLists(lists: Iterable<readonly number[]>): Lists {
  const made = createLists()
  for (const list of lists) {
    for (const item of list) made.add(item)
    made.end()
  }
  return made.shared()
}
