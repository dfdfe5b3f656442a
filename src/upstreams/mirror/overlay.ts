/**
 * What an upstream offers to an account or a credential of one caller (docs/decisions.md#callers): its own slice per
 * scope, read when somebody asks, cached in memory under a bound, and never mixed with the public slice.
 */
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../net/clock.js'
import { type Arguments, type Auth, type CallFailure, callFailed } from '../agent/agent.js'
import type { Dialect } from '../agent/dialect.js'
import { slabBytes } from '../rows/slab.js'
import type { Slice } from '../rows/slice.js'
import type { Held, Mirror } from './mirror.js'

// Of one upstream; those least asked for go first.
const MAX_SCOPES = 64
const MAX_BYTES = 1024 ** 3

export type Scope = {
  /** Opaque name of the account or credential: the cache key, and the slice's `scope`. */
  scope: string
  /** The caller's own credential for this upstream. */
  auth?: Auth
  /** The upstream's account reference (docs/protocol.md#requests). */
  account?: Arguments
}

export type OverlayOutcome =
  | { kind: 'slice'; slice: Slice }
  /** The upstream says that this account is priced off the public rate card. */
  | { kind: 'public' }
  | CallFailure

export type OverlayOptions = {
  mirrorOf(scope: Scope): Mirror
  dialect(): Promise<{ kind: 'dialect'; value: Dialect } | CallFailure>
  pace: { refreshMs: number; dropAfterMs: number }
  clock: Clock
}

type Member = {
  mirror: Mirror
  held?: Held
  /** What the last reading said, and when. */
  outcome?: OverlayOutcome
  readAt: number
  reading?: Promise<OverlayOutcome>
}

export function createOverlays({ mirrorOf, dialect, pace, clock }: OverlayOptions) {
  const members = new LRUCache<string, Member>({
    max: MAX_SCOPES,
    maxSize: MAX_BYTES,
    sizeCalculation: ({ held }) => 1 + (held ? slabBytes(held.slice.rows) : 0),
  })

  async function refresh(member: Member): Promise<OverlayOutcome> {
    const speaking = await dialect()
    const outcome =
      speaking.kind === 'failed' ? speaking : await member.mirror.refresh(member.held, speaking.value)
    const now = clock.now()
    if (outcome.kind === 'failed') {
      const { held } = member
      // The last good rows are carried forward until their cap, as the public ones are.
      if (held && now - held.confirmedAt <= pace.dropAfterMs) return { kind: 'slice', slice: held.slice }
      delete member.held
      return outcome
    }
    member.readAt = now
    if (outcome.kind === 'public') delete member.held
    else member.held = outcome.held
    member.outcome = outcome.kind === 'public' ? outcome : { kind: 'slice', slice: outcome.held.slice }
    return member.outcome
  }

  function readOnce(scope: string, member: Member): Promise<OverlayOutcome> {
    member.reading ??= refresh(member).finally(() => {
      delete member.reading
      members.set(scope, member) // its size is another one now
    })
    return member.reading
  }

  /** A reading that begins now: one under way may not show what happened since it began. */
  function readAfresh(scope: string, member: Member): Promise<OverlayOutcome> {
    return member.reading ? member.reading.then(() => readOnce(scope, member)) : readOnce(scope, member)
  }

  /**
   * At the deadline the answer is what is held; the reading goes on and warms the cache
   * (docs/decisions.md#deadlines).
   */
  function byDeadline(
    member: Member,
    reading: Promise<OverlayOutcome>,
    deadline: number,
  ): Promise<OverlayOutcome> {
    return new Promise((resolve, reject) => {
      const cancel = clock.after(deadline - clock.now(), () => {
        resolve(member.outcome ?? callFailed('timeout', 'the overlay could not be read in time'))
      })
      reading.finally(cancel).then(resolve, reject)
    })
  }

  return {
    /** `deadline` in ms since the epoch; `fresh`: what was read before this call is not enough. */
    async read(scope: Scope, deadline: number, fresh = false): Promise<OverlayOutcome> {
      const { scope: name } = scope
      const member = members.get(name) ?? { mirror: mirrorOf(scope), readAt: 0 }
      members.set(name, member)
      if (fresh) return byDeadline(member, readAfresh(name, member), deadline)
      if (member.outcome && clock.now() - member.readAt < pace.refreshMs) return member.outcome
      return byDeadline(member, readOnce(name, member), deadline)
    },
  }
}
