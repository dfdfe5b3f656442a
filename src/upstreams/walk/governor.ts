/**
 * What one upstream may take of what all of them share, so that a bad one never hurts the feed (docs/house.md). Calls under way
 * are bounded per upstream and in all, and calls that somebody waits for have other places than readings. Memory for rows is
 * bounded in all; when it is full, the largest user loses rows, never another. One owner can have any number of agents, so use
 * is measured by registrable domain.
 */
import { getDomain } from 'tldts'
import { createDeadline, within } from '../../net/clock.js'
import { createFairQueue } from '../../process/fair-queue.js'
import { type AgentOutcome, type Budget, callFailed } from '../agent/agent.js'
import { slabBuffers } from '../rows/slab.js'
import type { Slice } from '../rows/slice.js'

const MAX_WAITING_CALLS = 200 // waiting calls of one upstream; more than this would not get a turn in time
/** Places of readings, and as many of calls: even hundreds of hung agents of one domain, or host, leave some for others. */
const PLACES = { total: 1_024, perOwner: 128, perGroup: 64 }
const ROW_COLUMNS = 18 // bytes of a row's place and digest, in addition to its JSON
const CHECKS = 1_000 // a walk is weighed against the others each time it has grown by that part of the whole

/**
 * Runs a call when there is a place, with the rest of its budget; resolves by the end of the budget in any case. Who gives up before
 * is answered then, and waits at no place any more.
 */
export type Slots = (budget: Budget, run: (budget: Budget) => Promise<AgentOutcome>) => Promise<AgentOutcome>

/** The registrable one, where there is one. */
function domainOf(agentUrl: string): string {
  const { hostname } = new URL(agentUrl)
  return getDomain(hostname, { allowPrivateDomains: true }) ?? hostname
}

/**
 * The places of all upstreams, from which each gets its own, for `concurrency` calls at once. Registrable domains take turns for
 * them, and within one its hosts. What waits for a place holds none: a call waits in the line of its upstream first, and what is
 * under way at the upstream itself comes last, where a call never has more before it than what was sent already.
 */
export function createSlots(): (agentUrl: string, concurrency: number) => Slots {
  const places = { calls: createFairQueue(PLACES), readings: createFairQueue(PLACES) }

  return (agentUrl, concurrency) => {
    const turn = { owners: [domainOf(agentUrl)], group: new URL(agentUrl).host }
    const atOnce = { total: concurrency, perOwner: concurrency, perGroup: concurrency }
    const lines = { calls: createFairQueue(atOnce), readings: createFairQueue(atOnce) }
    const own = createFairQueue(atOnce)

    return (budget, run) => {
      const kind = budget.isAwaited ? 'calls' : 'readings'
      const line = { owners: [kind], group: '' }
      if (lines[kind].waiting(kind) >= MAX_WAITING_CALLS) {
        return Promise.resolve(callFailed('backing_off', `${MAX_WAITING_CALLS} calls are waiting already`))
      }
      const startedAt = Date.now()
      const wait = createDeadline(budget) // until the call begins
      const gaveUp = wait.signal()
      const inTurn = () => places[kind].run(turn, () => own.run(line, started, gaveUp), gaveUp)

      async function started(): Promise<AgentOutcome> {
        wait.release()
        const timeoutMs = budget.timeoutMs - (Date.now() - startedAt)
        return timeoutMs > 0
          ? run({ ...budget, timeoutMs })
          : callFailed('timeout', 'no place was free in time')
      }

      async function waited(): Promise<AgentOutcome> {
        try {
          return await lines[kind].run(line, inTurn, gaveUp)
        } catch (error) {
          if (wait.why() === 'timeout') return callFailed('timeout', 'no place was free in time')
          if (wait.why() === 'aborted') return callFailed('aborted', 'the caller gave up')
          throw error
        } finally {
          wait.release()
        }
      }

      // Some waits are shared with other callers (a handshake, a place): none may outlast this call's budget.
      const { timeoutMs } = budget
      return within(waited(), { timeoutMs }, () => callFailed('timeout', 'no answer in time'))
    }
  }
}

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
  /** What it holds from now on, in the place of what it held; undefined: nothing. */
  holds(slice: Slice | undefined): void
  /**
   * What its walk has gathered so far; 0 when it is over. False: the walk must end, for it, or another agent of its
   * domain, takes more than anybody else.
   */
  gathers(rows: number, bytes: number): boolean
}

export type Governor = {
  limits(): ReadLimits
  /** `agentUrl`: canonical. `onEvicted`: what it holds is to be dropped; called from within whatever made memory short. */
  share(agentUrl: string, onEvicted: () => void): Share
  /** The limits may be other ones. */
  weigh(): void
  /** Bytes counted now. */
  usedBytes(): number
  /** Times that an upstream's rows gave way. */
  evictions(): number
}

/** All agents under one registrable domain. Rows in memory that several of their slices share count once. */
type Domain = {
  shares: Set<Entry>
  /** How many slices lie in each piece of memory. */
  buffers: Map<ArrayBufferLike, number>
  heldBytes: number
}

type Entry = {
  /** The registrable one. */
  domain: string
  slice: Slice | undefined
  gathered: number
  /** What it had gathered when it was last weighed. */
  weighed: number
  /** Its walk must end: it no longer counts. */
  ending: boolean
  onEvicted(): void
}

const bytesOfRows = (rows: number, bytes: number) => bytes + rows * ROW_COLUMNS

/** Counts a slice in (1) or out (-1). */
function count(domain: Domain, slice: Slice | undefined, step: 1 | -1): void {
  if (!slice) return
  const { buffers } = domain
  domain.heldBytes += step * bytesOfRows(slice.rows.count, 0)
  for (const buffer of slabBuffers(slice.rows)) {
    const before = buffers.get(buffer) ?? 0
    const after = before + step
    if (after === 0) buffers.delete(buffer)
    else buffers.set(buffer, after)
    if (before === 0 || after === 0) domain.heldBytes += step * buffer.byteLength
  }
}

function sizeOf(slice: Slice | undefined): number {
  return slice ? slabBuffers(slice.rows).reduce((sum, { byteLength }) => sum + byteLength, 0) : 0
}

const walkBytes = ({ gathered, ending }: Entry) => (ending ? 0 : gathered)

const costOf = (entry: Entry) => sizeOf(entry.slice) + walkBytes(entry)

function bytesOf({ shares, heldBytes }: Domain): number {
  let bytes = heldBytes
  for (const entry of shares) bytes += walkBytes(entry)
  return bytes
}

/** `limits` gives the bounds that hold now. */
export function createGovernor(limits: () => ReadLimits): Governor {
  const domains = new Map<string, Domain>()
  let evictions = 0

  const usedBytes = () => [...domains.values()].reduce((sum, domain) => sum + bytesOf(domain), 0)

  /** Of the domain that uses most, the share that uses most. */
  function greediest(): Entry | undefined {
    const most = <T>(all: Iterable<T>, weight: (one: T) => number): T | undefined =>
      [...all].reduce<T | undefined>((a, b) => (a !== undefined && weight(a) >= weight(b) ? a : b), undefined)
    const domain = most(domains.values(), bytesOf)
    return domain && most(domain.shares, costOf)
  }

  /** Ends walks of the largest user, or drops what it holds, until everything is within the bound. */
  function weigh(): void {
    while (usedBytes() > limits().memoryBytes) {
      const entry = greediest()
      if (!entry || costOf(entry) === 0) return
      evictions += 1
      if (walkBytes(entry) > 0) entry.ending = true
      else {
        hold(entry, undefined)
        entry.onEvicted()
      }
    }
  }

  /** Only domains of which somebody takes something are known. */
  function changed(entry: Entry, change: (domain: Domain) => void): void {
    const domain = domains.get(entry.domain) ?? { shares: new Set(), buffers: new Map(), heldBytes: 0 }
    change(domain)
    if (entry.slice || entry.gathered > 0) domain.shares.add(entry)
    else domain.shares.delete(entry)
    if (domain.shares.size > 0) domains.set(entry.domain, domain)
    else domains.delete(entry.domain)
  }

  function hold(entry: Entry, slice: Slice | undefined): void {
    const before = entry.slice
    entry.slice = slice
    changed(entry, (domain) => {
      count(domain, slice, 1) // first: memory that both lie in stays counted
      count(domain, before, -1)
    })
  }

  function share(agentUrl: string, onEvicted: () => void): Share {
    const nothing = { slice: undefined, gathered: 0, weighed: 0, ending: false }
    const entry: Entry = { domain: domainOf(agentUrl), ...nothing, onEvicted }
    return {
      maxRows: () => limits().rowsPerUpstream,
      holds(slice) {
        const isCounted = entry.slice?.rows === slice?.rows
        hold(entry, slice)
        if (!isCounted) weigh()
      },
      gathers(rows, bytes) {
        changed(entry, () => {
          entry.gathered = bytesOfRows(rows, bytes)
          if (entry.gathered === 0) entry.ending = false
        })
        const grown = entry.gathered - entry.weighed
        if (entry.gathered === 0 || grown >= limits().memoryBytes / CHECKS) {
          entry.weighed = entry.gathered
          weigh()
        }
        return !entry.ending
      },
    }
  }

  return { limits, share, weigh, usedBytes, evictions: () => evictions }
}
