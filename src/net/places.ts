/**
 * Places for requests, so many for each name at once; whoever finds none waits for the next that becomes free, in order, and no
 * longer than its deadline. The pools of undici have a line too, but nobody can leave it: what has no connection stays in memory,
 * with its body, however long its answer is no longer waited for, and each such request is given a connection in the end.
 */
import type { Deadline, End } from './clock.js'

type Leave = () => void

export function createPlaces(most: number) {
  const all = new Map<string, { taken: number; waiting: Set<Leave> }>()

  /** How the place is left, once; or what ended the deadline before there was one. */
  function take(name: string, { ended }: Pick<Deadline, 'ended'>): Promise<Leave | End> {
    const here = all.get(name) ?? { taken: 0, waiting: new Set() }
    all.set(name, here)
    const { waiting } = here

    function placed(): Leave {
      let isLeft = false
      return () => {
        if (isLeft) return
        isLeft = true
        const [next] = waiting
        if (next) {
          waiting.delete(next)
          next()
        } else {
          here.taken -= 1
          if (here.taken === 0) all.delete(name)
        }
      }
    }

    return new Promise((resolve) => {
      if (here.taken < most) {
        here.taken += 1
        resolve(placed())
        return
      }
      const enter = () => resolve(placed())
      waiting.add(enter)
      void ended.then((end) => {
        if (waiting.delete(enter)) resolve(end)
      })
    })
  }

  return { take }
}
