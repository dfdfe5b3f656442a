/** The best of many, without putting the many in order. */

/** A bounded heap whose root is the worst row kept. */
export function createTop(limit: number, worse: (one: number, other: number) => boolean) {
  const heap: number[] = []

  function sink(from: number): void {
    let at = from
    for (;;) {
      let least = at
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < heap.length && worse(heap[child] as number, heap[least] as number)) least = child
      }
      if (least === at) return
      ;[heap[at], heap[least]] = [heap[least] as number, heap[at] as number]
      at = least
    }
  }

  function offer(row: number): void {
    if (heap.length < limit) {
      heap.push(row)
      for (let at = heap.length - 1; at > 0; ) {
        const parent = (at - 1) >> 1
        if (!worse(heap[at] as number, heap[parent] as number)) break
        ;[heap[at], heap[parent]] = [heap[parent] as number, heap[at] as number]
        at = parent
      }
    } else if (worse(heap[0] as number, row)) {
      heap[0] = row
      sink(0)
    }
  }

  return { offer, rows: () => heap.sort((one, other) => (worse(one, other) ? 1 : -1)) }
}
