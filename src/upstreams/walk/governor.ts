/**
 * What strangers' rows may cost together: memory is counted over all upstreams, and when it is full the greediest gives
 * way, never a bystander. Whoever owns a registrable domain can have any number of agents, so greed is measured by domain.
 */
import { getDomain } from 'tldts'
import type { Slice } from '../rows/slice.js'

const ROW_COLUMNS = 18 // bytes of a row's place and digest beside its JSON
const CHECKS = 1_000 // a walk is weighed against the others each time it has grown by that part of the whole

/** Bounds on what one upstream gives, and on what all of them hold. */
export type ReadLimits = {
  rowsPerUpstream: number
  /** Of one row as it came. */
  rowBytes: number
  /** Of one answer, decoded. */
  pageBytes: number
  /** Slices in use and walks under way, of all upstreams together. */
  memoryBytes: number
}

/** What holds when nothing else is said (docs/configuration.md). */
export const READ_LIMITS: ReadLimits = {
  rowsPerUpstream: 2_000_000,
  rowBytes: 256 * 1024,
  pageBytes: 32 * 1024 ** 2,
  memoryBytes: 8 * 1024 ** 3,
}

/** What one scope of one upstream takes of the whole. */
export type Share = {
  /** Rows of one walk. */
  maxRows(): number
  /** Its slice in use: counted as long as somebody has it. */
  holds(slice: Slice): void
  /**
   * What its walk has gathered so far; 0 when it is over. False: the walk must end, for it, or another agent of its
   * domain, takes more than anybody else.
   */
  gathers(rows: number, bytes: number): boolean
}

export type Governor = {
  limits(): ReadLimits
  /** `agentUrl`: canonical. `onEvicted`: what it holds is to be dropped. */
  share(agentUrl: string, scope: string, onEvicted: () => void): Share
  /** Bytes counted now. */
  usedBytes(): number
  /** Times that an upstream's rows gave way. */
  evictions(): number
}

type Entry = {
  domain: string
  held?: { rows: WeakRef<Slice['rows']>; bytes: number }
  gathered: number
  /** What it had gathered when it was last weighed. */
  weighed: number
  /** Its walk must end. */
  ending: boolean
  onEvicted(): void
}

function domainOf(agentUrl: string): string {
  const { hostname } = new URL(agentUrl)
  return getDomain(hostname, { allowPrivateDomains: true }) ?? hostname
}

function heldBytes({ held }: Entry): number {
  return held?.rows.deref() ? held.bytes : 0
}

/** A walk that must end is as good as gone. */
function costOf(entry: Entry): number {
  return heldBytes(entry) + (entry.ending ? 0 : entry.gathered)
}

const bytesOfRows = (rows: number, bytes: number) => bytes + rows * ROW_COLUMNS

/** `limits` gives the bounds that hold now. */
export function createGovernor(limits: () => ReadLimits): Governor {
  const entries = new Map<string, Entry>()
  let evictions = 0

  /** Bytes by registrable domain. An entry that takes nothing any more is forgotten. */
  function byDomain(): Map<string, number> {
    const sums = new Map<string, number>()
    for (const [key, entry] of entries) {
      if (heldBytes(entry) === 0 && entry.gathered === 0) entries.delete(key)
      sums.set(entry.domain, (sums.get(entry.domain) ?? 0) + costOf(entry))
    }
    return sums
  }

  const sum = (sums: ReadonlyMap<string, number>) => [...sums.values()].reduce((all, one) => all + one, 0)

  /** Of the greediest domain the entry that takes most. */
  function greediest(sums: ReadonlyMap<string, number>): Entry | undefined {
    const [domain] = [...sums].reduce((most, one) => (one[1] > most[1] ? one : most), ['', 0])
    const own = [...entries.values()].filter((entry) => entry.domain === domain)
    return own.reduce<Entry | undefined>(
      (most, one) => (most && costOf(most) >= costOf(one) ? most : one),
      undefined,
    )
  }

  /** Ends the walk of the greediest, or takes from it what it holds. */
  function makeRoom(): void {
    const entry = greediest(byDomain())
    if (!entry) return
    evictions += 1
    if (entry.gathered > 0 && !entry.ending) entry.ending = true
    else if (heldBytes(entry) > 0) {
      delete entry.held
      entry.onEvicted()
    }
  }

  function share(agentUrl: string, scope: string, onEvicted: () => void): Share {
    const key = `${scope} ${agentUrl}`
    const entry: Entry = { domain: domainOf(agentUrl), gathered: 0, weighed: 0, ending: false, onEvicted }
    return {
      maxRows: () => limits().rowsPerUpstream,
      holds({ rows }) {
        entries.set(key, entry)
        const chunks = rows.chunks.reduce((all, { byteLength }) => all + byteLength, 0)
        entry.held = { rows: new WeakRef(rows), bytes: bytesOfRows(rows.count, chunks) }
      },
      gathers(rows, bytes) {
        entries.set(key, entry)
        entry.gathered = bytesOfRows(rows, bytes)
        const { memoryBytes } = limits()
        if (entry.gathered === 0) entry.ending = false
        if (entry.gathered === 0 || entry.gathered - entry.weighed >= memoryBytes / CHECKS) {
          entry.weighed = entry.gathered
          if (sum(byDomain()) > memoryBytes) makeRoom()
        }
        return !entry.ending
      },
    }
  }

  return { limits, share, usedBytes: () => sum(byDomain()), evictions: () => evictions }
}
