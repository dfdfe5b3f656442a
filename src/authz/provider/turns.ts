/**
 * Whose turn it is to look at a provider: which of the processes that share a storage, and in which order within this one.
 * All domains fall into a few shares, so that thousands of providers need only a few leases. Within the process looks for
 * many owners run in a limited number of places, so that no owner waits for another's share.
 */
import { textHash } from '../../process/memory.js'
import type { Sharing, Turn, Turns } from '../../upstreams/rows/storage.js'

const SHARES = 32
const PREFIX = 'provider/'
/** So many providers in a row that did not answer: more likely this process is cut off than all of them are down. */
const SILENT = 3
const NO_OWNER: readonly string[] = [''] // work without an owner shares one turn

const shareOf = (domain: string) => `providers/${textHash(domain) % SHARES}`

/** Divides the providers among processes. `sharing`: undefined when this process is alone, and then every turn is its own. */
export function createShares(turns: Turns, sharing: Sharing | undefined) {
  const all = Array.from({ length: SHARES }, (_, share) => `providers/${share}`)
  const silent = new Set<string>()
  turns.want('providers', all)

  /** Leaves every share to the other processes, which may be able to reach the providers. */
  async function passAll(): Promise<void> {
    for (const share of all) if (turns.turn(share)) await sharing?.pass(share)
  }

  return {
    /** Undefined when another process looks at it. */
    turn: (domain: string): Turn | undefined => turns.turn(shareOf(domain)),
    onTurns: turns.onTurns,
    /**
     * Tells the other processes that it was looked at and the result is saved. `answered`: whether the provider answered
     * at all.
     */
    async looked(domain: string, turn: Turn, answered: boolean): Promise<void> {
      await sharing?.tell(`${PREFIX}${domain}`, 'looked', turn)
      if (answered) return silent.clear()
      silent.add(domain)
      if (silent.size < SILENT) return
      silent.clear()
      await passAll()
    },
    hear(listener: (domain: string) => void): void {
      sharing?.hear(PREFIX, (name) => listener(name.slice(PREFIX.length)))
    },
  }
}

type Visit = {
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

type Waiting = { start(done: () => void): void; isStarted: boolean }
type Group = { underWay: number; waiting: Waiting[] }
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
    const group = groups.get(name) ?? { underWay: 0, waiting: [] }
    groups.set(name, group)
    return group
  }

  /** The owner's next group that has work and a free place; drops finished groups on the way. */
  function nextGroup({ groups }: Owner): string | undefined {
    for (const [name, group] of groups) {
      while (group.waiting[0]?.isStarted) group.waiting.shift() // another of its owners had it started
      if (group.waiting.length === 0) {
        if (group.underWay === 0) groups.delete(name)
      } else if (group.underWay < perGroup) return name
    }
    return undefined
  }

  function next(): { ownerName: string; owner: Owner; groupName: string; group: Group } | undefined {
    let found: ReturnType<typeof next>
    for (const [ownerName, owner] of owners) {
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

  function startWaiting(): void {
    while (underWay < total && waiting > 0) {
      const turn = next()
      if (!turn) return
      const { ownerName, owner, groupName, group } = turn
      const entry = group.waiting.shift() as Waiting
      rotate(owners, ownerName, owner)
      rotate(owner.groups, groupName, group)
      entry.isStarted = true
      waiting -= 1
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
    /** Runs the task when its turn comes, and returns its result. */
    run<T>(turn: Visit, task: () => Promise<T>): Promise<T> {
      return new Promise((resolve, reject) => {
        const entry: Waiting = {
          isStarted: false,
          start(done) {
            task().finally(done).then(resolve, reject)
          },
        }
        waiting += 1
        for (const owner of turn.owners.length > 0 ? turn.owners : NO_OWNER)
          groupOf(owner, turn.group).waiting.push(entry)
        startWaiting()
      })
    },
  }
}
