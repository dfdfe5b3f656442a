/**
 * Looks after one upstream: keeps its slice current on a schedule, backs off when it fails, and recovers by itself
 * with single probes. Its troubles are its own: nothing here is shared with another upstream but the
 * total number of calls.
 */
import { isDeepStrictEqual } from 'node:util'
import type { SignalRef } from '../../adcp/reference.js'
import { backoffMs, jittered } from '../../net/backoff.js'
import type { Clock } from '../../net/clock.js'
import type { Send } from '../../net/send.js'
import { type AgentOutcome, type Arguments, type Auth, type CallFailure, callFailed } from '../agent/agent.js'
import { argumentsFor, type Dialect, dialectOf, isCredentialError, wouldMislead } from '../agent/dialect.js'
import { createLink, credentialName } from '../agent/link.js'
import type { Slots } from '../agent/slots.js'
import type { RosterEntry } from '../roster/roster.js'
import type { UpstreamStatus } from '../status.js'
import { openOnly, refreshIntroduced } from './introduction.js'
import { createMirror, type Held, type Mirror, type MirrorOutcome } from './mirror.js'
import { createOverlays, type Scope } from './overlay.js'
import type { SliceStore } from './slice-store.js'

const PUBLIC = 'public'
const DIALECT_MS = 24 * 60 * 60 * 1_000

export type Pace = {
  timeoutMs: number
  refreshMs: number
  staleAfterMs: number
  dropAfterMs: number
  pageSize: number
  /** For one walk of a feed from its first page to its last. */
  walkMs: number
}

export type RunnerOptions = {
  entry: RosterEntry
  /** Ours, for agents that answer nobody without one. */
  account: Arguments
  pace: Pace
  send: Send
  slots: Slots
  store: SliceStore
  clock: Clock
  random(): number
  referencesFor(agentUrl: string): readonly SignalRef[] | Promise<readonly SignalRef[]>
  /** The slice in use is another one now, or gone. */
  onChange(): void
  onTrouble(message: string): void
}

export type UpstreamCall = {
  /** Ms since the epoch. */
  deadline: number
  signal?: AbortSignal
  /** A caller's own credential for this upstream instead of the configured one. */
  auth?: Auth
}

/** Ends early when `signal` aborts. */
function sleepOn(clock: Clock, signal: AbortSignal, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      cancel()
      signal.removeEventListener('abort', end)
      resolve()
    }
    const cancel = clock.after(ms, end)
    signal.addEventListener('abort', end, { once: true })
  })
}

const CANNOT_DEACTIVATE: AgentOutcome = {
  kind: 'error',
  error: { code: 'UNSUPPORTED_FEATURE', message: 'this agent has no way to switch a signal off' },
}

export function createRunner(options: RunnerOptions) {
  const { entry, account, pace, send, slots, store, clock, random, referencesFor, onChange, onTrouble } =
    options
  const { id, agentUrl } = entry
  const { refreshMs } = pace
  const credential = credentialName(entry.auth)
  const lifetime = new AbortController()
  const sleep = (ms: number) => sleepOn(clock, lifetime.signal, ms)

  let held: Held | undefined
  let dialect: { value: Dialect; readAt: number } | undefined
  let problem: UpstreamStatus['problem']
  let failures = 0
  let answered = false
  let nextAttemptAt: number | undefined
  let cancelAttempt: (() => void) | undefined
  let cancelDrop: (() => void) | undefined
  let refreshing: Promise<void> | undefined
  let againSoon = false
  let isOpen = false // what was saved is taken up

  const link = createLink({
    entry,
    send,
    slots,
    timeoutMs: pace.timeoutMs,
    random,
    sleep,
    signal: lifetime.signal,
    onBroken() {
      if (isOpen && !refreshing) schedule(backoffMs({ failures: 1, refreshMs, random }))
    },
  })

  async function currentDialect(): Promise<{ kind: 'dialect'; value: Dialect } | CallFailure> {
    if (dialect && clock.now() - dialect.readAt < DIALECT_MS) return { kind: 'dialect', value: dialect.value }
    const outcome = await link.read('get_adcp_capabilities', {}, entry.auth)
    if (outcome.kind === 'failed') return outcome
    if (outcome.kind === 'error' && isCredentialError(outcome.error)) {
      return callFailed('unauthorized', outcome.error.code)
    }
    const value = dialectOf(outcome)
    if (!value) return callFailed('agent_error', 'its capabilities cannot be read at the moment')
    const before = providerDomains().join()
    dialect = { value, readAt: clock.now() }
    if (providerDomains().join() !== before) onChange()
    return { kind: 'dialect', value }
  }

  /**
   * Named by the rows of a feed; before there is one, and where there never is, by the agent itself
   * (docs/protocol.md#versions).
   */
  function providerDomains(): readonly string[] {
    const declared = held?.slice.mode === 'wholesale' ? [] : (dialect?.value.providerDomains ?? [])
    return [...(held?.domains ?? []), ...declared]
  }

  /** What is sent depends on who is spoken to, so it is asked first; the answer is kept for a day. */
  async function dialectBy(deadline: number): ReturnType<typeof currentDialect> {
    const inTime = new AbortController()
    const late = sleepOn(clock, inTime.signal, deadline - clock.now())
    try {
      return await Promise.race([
        currentDialect(),
        late.then(() => callFailed('timeout', 'the deadline has passed')),
      ])
    } finally {
      inTime.abort()
    }
  }

  function mirrorOf({ scope, auth = entry.auth, account: theirs }: Scope): Mirror {
    return createMirror({
      upstream: id,
      agentUrl,
      scope,
      ...{ pageSize: pace.pageSize, refreshMs, walkMs: pace.walkMs, dropAfterMs: pace.dropAfterMs },
      seeds: entry.seeds,
      referencesFor,
      async ask(task, args, speaking) {
        const sent = speaking ? argumentsFor(speaking, task, args) : args
        const outcome = await link.read(task, sent, auth)
        return scope === PUBLIC && sent.account ? openOnly(outcome) : outcome
      },
      sleep,
      now: clock.now,
      ...(theirs && { account: theirs }),
    })
  }

  const mirror = mirrorOf({ scope: PUBLIC })
  const overlays = createOverlays({ mirrorOf, dialect: currentDialect, pace, clock })

  function drop(): void {
    if (!held) return
    held = undefined
    store.remove({ agentUrl, scope: PUBLIC })
    onChange()
  }

  function keep(next: Held): void {
    held = next
    cancelDrop?.()
    cancelDrop = clock.after(next.confirmedAt + pace.dropAfterMs - clock.now(), drop)
  }

  function accept(next: Held, isNewContent: boolean): void {
    const before = held?.slice // gone when it passed its cap while this refresh was under way
    const { feedVersion, pricingVersion } = next.slice
    const isNew = isNewContent || before === undefined
    const isRetold =
      feedVersion !== before?.feedVersion ||
      pricingVersion !== before?.pricingVersion ||
      !isDeepStrictEqual(next.slice.outages, before?.outages)
    keep(next)
    if (isNew || isRetold) store.save(next, credential)
    else store.confirm(next)
    if (isNew) onChange()
  }

  function settle(outcome: MirrorOutcome): void {
    answered = true
    if (outcome.kind === 'public') throw new Error('the public scope has no overlay')
    if (outcome.kind !== 'failed') {
      failures = 0
      problem = undefined
      accept(outcome.held, outcome.kind === 'replaced')
      return
    }
    failures += 1
    problem = { reason: outcome.reason, message: outcome.message }
    // It may be another release now, or speak another transport: the next attempt asks again.
    if (outcome.reason === 'agent_error' || outcome.reason === 'protocol_error') dialect = undefined
    if (outcome.reason === 'protocol_error') link.forget()
  }

  function schedule(ms: number): void {
    if (lifetime.signal.aborted) return
    cancelAttempt?.()
    nextAttemptAt = clock.now() + ms
    cancelAttempt = clock.after(ms, refresh)
  }

  async function refreshSpeaking(value: Dialect): Promise<MirrorOutcome> {
    const found = await refreshIntroduced({
      dialect: value,
      account,
      refresh: (speaking) => mirror.refresh(held, speaking),
    })
    if (dialect && found.dialect !== value) dialect = { ...dialect, value: found.dialect }
    return found.outcome
  }

  async function refreshOnce(): Promise<void> {
    const speaking = await currentDialect()
    const outcome = speaking.kind === 'failed' ? speaking : await refreshSpeaking(speaking.value)
    if (lifetime.signal.aborted) return
    settle(outcome)
    const retryAfterMs = outcome.kind === 'failed' ? outcome.retryAfterMs : undefined
    if (againSoon) schedule(0)
    else if (failures > 0) schedule(backoffMs({ failures, refreshMs, random, retryAfterMs }))
    else schedule(jittered(refreshMs, random))
    againSoon = false
  }

  function refresh(): void {
    if (refreshing || lifetime.signal.aborted) return
    cancelAttempt?.()
    refreshing = refreshOnce()
      .catch((error: Error) => {
        // A bug of ours, met in one upstream's data, must cost no other upstream anything.
        onTrouble(`${id}: the refresh broke: ${error.stack ?? error.message}`)
        failures += 1
        schedule(backoffMs({ failures, refreshMs, random }))
      })
      .finally(() => {
        refreshing = undefined
      })
  }

  function state(): UpstreamStatus['state'] {
    if (!held) return answered ? 'absent' : 'starting'
    return problem || clock.now() - held.confirmedAt > pace.staleAfterMs ? 'stale' : 'fresh'
  }

  return {
    entry,
    /** Takes up what its predecessor held or an earlier process kept, then keeps it current. */
    async start(predecessor: Held | undefined): Promise<void> {
      const saved = predecessor ?? (await store.load({ agentUrl, scope: PUBLIC }, credential))
      if (lifetime.signal.aborted) return
      isOpen = true
      if (saved && clock.now() - saved.confirmedAt <= pace.dropAfterMs) {
        keep({ ...saved, slice: { ...saved.slice, upstream: id } })
        onChange()
      }
      refresh()
    },
    held: () => held,
    /** Refreshes now, or once more when a refresh is under way. Before the first one there is nothing to hurry. */
    refreshSoon(): void {
      if (!isOpen) return
      if (refreshing) againSoon = true
      else schedule(0)
    },
    async call(
      task: string,
      args: Arguments,
      { deadline, signal, auth = entry.auth }: UpstreamCall,
    ): Promise<AgentOutcome> {
      const troubles = link.broken()
      if (troubles !== undefined && nextAttemptAt !== undefined) {
        const wait = Math.max(0, nextAttemptAt - clock.now())
        return callFailed('backing_off', `it failed ${troubles} times in a row`, wait)
      }
      const speaking = await dialectBy(deadline)
      if (speaking.kind === 'failed') return speaking
      const timeoutMs = Math.min(pace.timeoutMs, deadline - clock.now())
      if (timeoutMs <= 0) return callFailed('timeout', 'the deadline has passed')
      if (wouldMislead(speaking.value, task, args)) return CANNOT_DEACTIVATE
      const sent = argumentsFor(speaking.value, task, args)
      return link.call(task, sent, auth, { timeoutMs, ...(signal && { signal }) })
    },
    overlay: overlays.read,
    status(): UpstreamStatus {
      const protocol = link.protocol()
      return {
        id,
        url: entry.url,
        name: entry.name,
        state: state(),
        listings: held?.slice.rows.count ?? 0,
        dropped: held?.slice.dropped ?? {},
        ...(protocol && { protocol }),
        ...(held?.slice.outages && { outages: held.slice.outages }),
        ...(held && {
          mode: held.slice.mode,
          walkedAt: held.slice.walkedAt,
          confirmedAt: held.confirmedAt,
        }),
        ...(problem && { problem }),
        ...(nextAttemptAt !== undefined && { nextAttemptAt }),
      }
    },
    providerDomains,
    /** Ends what is under way. The saved slice stays. */
    async close(): Promise<void> {
      lifetime.abort()
      cancelAttempt?.()
      cancelDrop?.()
      await refreshing
    },
  }
}

export type Runner = ReturnType<typeof createRunner>
