/** What befalls replicas: each fault begins, lasts, and is over; in between the replica counts as afflicted. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Cluster, Replica } from './cluster.js'

export const FAULTS = [
  'killed',
  'stopped',
  'cut from the database',
  'hung',
  'cut from upstreams',
  'no database',
] as const
export type Fault = (typeof FAULTS)[number]

/** In another order, by the numbers from 0 to 1 that `random` gives. */
export function shuffled<T>(all: readonly T[], random: () => number): T[] {
  return all
    .map((one) => ({ one, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one)
}

const APART: ReadonlySet<Fault> = new Set(['cut from the database', 'hung', 'no database'])
/** Statements that hung, and connections that were lost, are given up by then. */
const RECOVERED_MS = 35_000

const isMirror = (name: string) => name.startsWith('mirror/')
/** Work that a replica with this fault has to leave: who reaches the database can build. */
const isLeft = (name: string, fault: Fault) =>
  isMirror(name) || (name.endsWith('/builder') && fault !== 'cut from upstreams')

export function createFaults({ replicas, agents, postgres, fence, lineOf }: Cluster) {
  const afflicted = new Set<Replica>()
  let apartUntil = 0
  const takeovers: { of: Fault; ms: number }[] = []

  /** Resolves when no work is left with the replica; how long that took is noted. */
  async function takenOver(of: Fault, { name }: Replica, limitMs: number): Promise<void> {
    const since = Date.now()
    for (const end = since + limitMs; Date.now() < end; await wait(100)) {
      const holders = [...(await fence.holders())].filter(([work]) => isLeft(work, of))
      if (holders.length > 0 && holders.every(([, holder]) => holder !== name)) break
    }
    takeovers.push({ of, ms: Date.now() - since })
  }

  /** For so long; when it is long enough for the others to take its work over, that is measured. */
  async function during(fault: Fault, replica: Replica, ms: number): Promise<void> {
    const isLong = ms > 20_000 && fault !== 'no database'
    const over = wait(ms)
    if (isLong) await takenOver(fault, replica, ms)
    await over
  }

  async function befall(fault: Fault, replica: Replica, ms: number): Promise<void> {
    if (fault === 'killed') {
      await replica.kill()
      await during(fault, replica, ms)
      await replica.start()
    } else if (fault === 'stopped') {
      replica.signal('SIGSTOP')
      await during(fault, replica, ms)
      replica.signal('SIGCONT')
    } else if (fault === 'no database') {
      await postgres.kill()
      await wait(ms)
      await postgres.start()
    } else if (fault === 'cut from upstreams') {
      agents.reach(replica.address, false)
      await during(fault, replica, ms)
      agents.reach(replica.address, true)
    } else {
      lineOf(replica, fault === 'hung' ? 'hung' : 'cut')
      await during(fault, replica, ms)
      lineOf(replica, 'open')
    }
  }

  return {
    takeovers,
    /** A replica is away from the database, or was moments ago. */
    isApart: () => Date.now() < apartUntil,
    /** The replica that reads most agents now. */
    async busiest(): Promise<Replica> {
      const holders = [...(await fence.holders())].filter(([work]) => isMirror(work))
      const count = ({ name }: Replica) => holders.filter(([, holder]) => holder === name).length
      return replicas.reduce((most, one) => (count(one) > count(most) ? one : most))
    },
    /** All that a process lives through. */
    passing: FAULTS.filter((fault) => fault !== 'killed'),
    isAfflicted: (replica: Replica) => afflicted.has(replica),
    /** One fault on one replica; resolves when it is over. */
    async befall(fault: Fault, replica: Replica, ms: number): Promise<void> {
      const whom = fault === 'no database' ? replicas : [replica]
      for (const one of whom) afflicted.add(one)
      if (APART.has(fault)) apartUntil = Number.POSITIVE_INFINITY
      await befall(fault, replica, ms)
      if (APART.has(fault)) apartUntil = Date.now() + RECOVERED_MS
      for (const one of whom) afflicted.delete(one)
    },
  }
}

export type Faults = ReturnType<typeof createFaults>
