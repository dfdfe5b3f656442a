/**
 * Places for requests, so many for each name at once; whoever finds none waits for the next that becomes free, in order, and no
 * longer than its deadline. Whoever is named has no more places than are left free, so one alone has half of them, and one that
 * hangs in all of its own keeps no other waiting. Who gives up leaves the line, or its place, also while a connection is being
 * made for it.
 */
import type { Deadline, End } from './clock.js'

type Leave = () => void
type Waiting = { mayEnter(): boolean; enter(): void }

export function createPlaces(most: number) {
  const all = new Map<string, { taken: number; held: Map<string, number>; waiting: Set<Waiting> }>()

  /**
   * Resolves with the function that leaves the place, or with what ended the deadline before there was one. `whose`: who asks;
   * undefined: not one of those who share.
   */
  function take(name: string, { ended }: Pick<Deadline, 'ended'>, whose?: string): Promise<Leave | End> {
    const here = all.get(name) ?? { taken: 0, held: new Map<string, number>(), waiting: new Set<Waiting>() }
    all.set(name, here)
    const { held, waiting } = here

    const own = () => (whose === undefined ? 0 : (held.get(whose) ?? 0))
    const mayEnter = () => own() < most - here.taken

    function count(by: 1 | -1): void {
      here.taken += by
      if (whose === undefined) return
      const next = own() + by
      if (next > 0) held.set(whose, next)
      else held.delete(whose)
    }

    function placed(): Leave {
      let isLeft = false
      count(1)
      return () => {
        if (isLeft) return
        isLeft = true
        count(-1)
        for (const one of waiting) {
          if (here.taken === most) break
          if (one.mayEnter() && waiting.delete(one)) one.enter()
        }
        if (here.taken === 0) all.delete(name)
      }
    }

    return new Promise((resolve) => {
      if (mayEnter()) {
        resolve(placed())
        return
      }
      const one = { mayEnter, enter: () => resolve(placed()) }
      waiting.add(one)
      void ended.then((end) => {
        if (waiting.delete(one)) resolve(end)
      })
    })
  }

  return { take }
}
