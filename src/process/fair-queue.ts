/** Places to work in that many owners share, so that nobody takes what is another's: they take turns. */

const NOBODY: readonly string[] = [''] // work that has no owner is one owner's

/** Who asked for a task, and where it goes. */
type Asked = {
  /** All owners who asked for it. It runs at the turn of the first of them and counts for that one. */
  owners: readonly string[]
  group: string
}

type FairQueueOptions = {
  /** Tasks under way at once: in all, for one owner, and in one group of one owner. */
  total: number
  perOwner: number
  perGroup: number
}

type Waiting = { asked: Asked; start(done: () => void): void }
/** In the order in which they came. */
type Group = { underWay: number; waiting: Set<Waiting> }
/** The groups in the order of their turns. */
type Owner = { underWay: number; groups: Map<string, Group> }

/**
 * Runs work for many owners in a limited number of places. The owner with the least work under way is next, and within
 * it the group that waited longest. An owner is who asked for the work, a group is where it goes.
 */
export function createFairQueue({ total, perOwner, perGroup }: FairQueueOptions) {
  /** The owners in the order of their turns. */
  const owners = new Map<string, Owner>()
  let underWay = 0
  let waiting = 0

  function groupOf(owner: string, name: string): Group {
    const { groups } = owners.get(owner) ?? { groups: new Map<string, Group>() }
    if (!owners.has(owner)) owners.set(owner, { underWay: 0, groups })
    const group = groups.get(name) ?? { underWay: 0, waiting: new Set<Waiting>() }
    groups.set(name, group)
    return group
  }

  /** The owner's next group that has work and a free place; drops finished groups on the way. */
  function nextGroup({ groups }: Owner): string | undefined {
    for (const [name, group] of groups) {
      if (group.waiting.size === 0) {
        if (group.underWay === 0) groups.delete(name)
      } else if (group.underWay < perGroup) return name
    }
    return undefined
  }

  function next(): { ownerName: string; owner: Owner; groupName: string; group: Group } | undefined {
    let found: ReturnType<typeof next>
    for (const [ownerName, owner] of owners) {
      if (found?.owner.underWay === 0) break // nobody has less
      if (owner.underWay >= Math.min(perOwner, found?.owner.underWay ?? perOwner)) continue
      const groupName = nextGroup(owner)
      const group = groupName === undefined ? undefined : owner.groups.get(groupName)
      if (groupName !== undefined && group) found = { ownerName, owner, groupName, group }
      else if (owner.groups.size === 0) owners.delete(ownerName)
    }
    return found
  }

  /** Whoever has had a turn goes to the end of the line. */
  function rotate<T>(map: Map<string, T>, name: string, value: T): void {
    map.delete(name)
    map.set(name, value)
  }

  const ownersOf = ({ owners: all }: Asked) => (all.length > 0 ? all : NOBODY)

  /** It waits no longer, at any of its owners. */
  function leaves(entry: Waiting): void {
    waiting -= 1
    for (const owner of ownersOf(entry.asked)) groupOf(owner, entry.asked.group).waiting.delete(entry)
  }

  function startWaiting(): void {
    while (underWay < total && waiting > 0) {
      const turn = next()
      if (!turn) return
      const { ownerName, owner, groupName, group } = turn
      const [entry] = group.waiting as Iterable<Waiting> as [Waiting]
      rotate(owners, ownerName, owner)
      rotate(owner.groups, groupName, group)
      leaves(entry)
      underWay += 1
      owner.underWay += 1
      group.underWay += 1
      entry.start(() => {
        underWay -= 1
        owner.underWay -= 1
        group.underWay -= 1
        startWaiting()
      })
    }
  }

  return {
    /**
     * Runs the task when its turn comes, and returns its result. Who gives up (`signal`) before that has no place in the line any
     * more: the promise rejects with the signal's reason.
     */
    run<T>(asked: Asked, task: () => Promise<T>, signal?: AbortSignal): Promise<T> {
      return new Promise((resolve, reject) => {
        signal?.throwIfAborted()
        const giveUp = () => {
          leaves(entry)
          reject(signal?.reason)
        }
        const entry: Waiting = {
          asked,
          start(done) {
            signal?.removeEventListener('abort', giveUp)
            task().finally(done).then(resolve, reject)
          },
        }
        signal?.addEventListener('abort', giveUp, { once: true })
        waiting += 1
        for (const owner of ownersOf(asked)) groupOf(owner, asked.group).waiting.add(entry)
        startWaiting()
      })
    },
    /** How many tasks of an owner wait for their turn. */
    waiting(owner: string): number {
      const groups = owners.get(owner)?.groups.values() ?? []
      return [...groups].reduce((sum, group) => sum + group.waiting.size, 0)
    },
  }
}
