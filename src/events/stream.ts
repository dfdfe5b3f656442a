/**
 * What a subscriber was told and what it is still to be told, as its job holds it: any process that takes the job goes on from
 * there.
 */
import type { NewJob } from '../store/jobs.js'
import type { Standings, ToldVersions } from './standings.js'

/** The kind of a subscription's job. */
export const FEED_EVENTS_JOB = 'feed_events'

/** An event that was written down for one subscriber; `sealed` where it holds activation keys. */
export type Pending = { key: string; type: string; body?: string; sealed?: string }

/** What the job of a subscription knows. */
export type Stream = {
  /** What the subscriber holds once it has taken all that is pending; absent before the first feed. */
  versions?: ToldVersions
  /** The event that was made for it last, by its id: later ones are above it. */
  lastId?: string
  /** What it held before. */
  base?: ToldVersions
  pending: readonly Pending[]
  /** Names the reader for whom `pending` was compared: it is not sent to another. */
  eyes?: string
  failures: number
  /** ms since the epoch. */
  failingSince?: number
  /** The pending event replaces all that were missed. */
  isCoalesced?: boolean
  /** It was not sent what changed before `versions`. */
  hasMissed?: boolean
}

/** The job of a new subscription: the feed stands at `versions`, and the subscriber has read it, or `hasMissed` something. */
export function subscriptionJob(
  id: string,
  caller: string,
  { versions, hasMissed }: { versions: ToldVersions | undefined; hasMissed: boolean },
): NewJob {
  const stream: Stream = {
    ...{ pending: [], failures: 0 },
    ...(versions && { versions }),
    ...(hasMissed && { hasMissed }),
  }
  return { id, kind: FEED_EVENTS_JOB, lane: caller, caller, data: stream }
}

/** How far a subscriber is behind, from its job: how many events wait, and since when none is accepted, ms. */
export function deliveryOf(stream: unknown): { pending: number; failures: number; failingSince?: number } {
  const { pending = [], failures = 0, failingSince } = (stream ?? {}) as Partial<Stream>
  return { pending: pending.length, failures, ...(failingSince !== undefined && { failingSince }) }
}

/** The stream after the receiver has accepted so many events: it can be reached again. */
export function taken(stream: Stream, count: number): Stream {
  const after: Stream = { ...stream, pending: stream.pending.slice(count), failures: 0 }
  delete after.failingSince
  delete after.isCoalesced
  return after
}

/** It was sealed, and the key is gone. */
export const isLost = ({ body, sealed }: Pending) => body === undefined && sealed === undefined

/** The pending events cannot or must not be sent any more: one event says to read again. */
export function withheld({ base, eyes: _, isCoalesced: __, ...rest }: Stream): Stream {
  if (rest.pending.length === 0) return rest
  const versions = base ?? rest.versions
  return { ...rest, ...(versions && { versions }), pending: [], hasMissed: true }
}

type Told = NonNullable<Awaited<ReturnType<Standings['since']>>>

/** What a stream has told once these events are sent. */
export function stateAfter({ versions, events }: Told): Pick<Stream, 'versions' | 'lastId'> {
  const { id: lastId } = events.at(-1) ?? {}
  return { versions, ...(lastId !== undefined && { lastId }) }
}
