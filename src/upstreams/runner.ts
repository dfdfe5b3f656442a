/**
 * Looks after one upstream: finds out how to speak to it, keeps its slice current on a schedule, backs off when it
 * fails, and recovers by itself with single probes (issue "Health"). Its troubles are its own: nothing here is shared
 * with another upstream but the total number of calls.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { SignalRef } from '../adcp/reference.js'
import type { Clock } from '../net/clock.js'
import type { Send } from '../net/send.js'
import {
  type Agent,
  type AgentOutcome,
  type Arguments,
  type Auth,
  type Budget,
  type CallFailure,
  callFailed,
} from './agent.js'
import { backoffMs, jittered } from './backoff.js'
import { argumentsFor, type Dialect, dialectOf, isCredentialError } from './dialect.js'
import { createMirror, type Held, type Mirror, type MirrorOutcome } from './mirror.js'
import { createOverlays, type Scope } from './overlay.js'
import { probe } from './probe.js'
import type { RosterEntry } from './roster.js'
import type { SliceStore } from './slice-store.js'
import type { Slots } from './slots.js'
import type { UpstreamFailure, UpstreamStatus } from './status.js'

const RETRY_MS = 200
const LONGEST_RETRY_AFTER_MS = 5_000 // a longer wish is the schedule's business
const DIALECT_MS = 24 * 60 * 60 * 1_000
const PUBLIC = 'public'
const MAX_AGENTS = 64 // credentials of callers, each with a session of its own
const OPEN_AFTER = 3 // transport failures in a row that make further calls pointless

/** Failures that say the upstream, not the request, is in trouble. */
const TRANSPORT: ReadonlySet<UpstreamFailure> = new Set([
  'refused',
  'unresolvable',
  'unreachable',
  'timeout',
  'server_error',
  'not_an_agent',
])
/** How often a read that is safe to repeat is tried, by what went wrong: one bad page must not cost a long walk. */
const ATTEMPTS: { readonly [reason in UpstreamFailure]?: number } = {
  unreachable: 3,
  server_error: 3,
  rate_limited: 3,
  timeout: 2,
  protocol_error: 2,
}

export type Pace = {
  timeoutMs: number
  refreshMs: number
  staleAfterMs: number
  dropAfterMs: number
  pageSize: number
}

export type RunnerOptions = {
  entry: RosterEntry
  pace: Pace
  send: Send
  slots: Slots
  store: SliceStore
  clock: Clock
  random(): number
  referencesFor(agentUrl: string): readonly SignalRef[]
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

function credentialName(auth: Auth): string {
  return auth.type === 'none' ? 'none' : hash('sha256', JSON.stringify(auth)).slice(0, 16)
}

export function createRunner(options: RunnerOptions) {
  const { entry, pace, send, slots, store, clock, random, referencesFor, onChange, onTrouble } = options
  const { id, agentUrl } = entry
  const credential = credentialName(entry.auth)
  const lifetime = new AbortController()
  const agents = new LRUCache<string, Agent>({ max: MAX_AGENTS })

  let held: Held | undefined
  let dialect: { value: Dialect; readAt: number } | undefined
  let problem: UpstreamStatus['problem']
  let failures = 0
  let transportFailures = 0
  let answered = false
  let nextAttemptAt: number | undefined
  let cancelAttempt: (() => void) | undefined
  let cancelDrop: (() => void) | undefined
  let refreshing: Promise<void> | undefined
  let againSoon = false

  /** Ends early when the runner closes. */
  function sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(ms, () => {
        lifetime.signal.removeEventListener('abort', onClose)
        resolve()
      })
      function onClose() {
        cancel()
        resolve()
      }
      lifetime.signal.addEventListener('abort', onClose, { once: true })
    })
  }

  async function agentFor(
    auth: Auth,
    budget: Budget,
  ): Promise<{ kind: 'found'; agent: Agent } | CallFailure> {
    const name = credentialName(auth)
    const known = agents.get(name)
    if (known) return { kind: 'found', agent: known }
    const protocol = entry.protocol ?? agents.get(credential)?.protocol
    const found = await probe({ send, url: entry.url, auth }, protocol, budget)
    if (found.kind === 'found') agents.set(name, found.agent)
    return found
  }

  /** A caller's short deadline is no evidence against the upstream: only our own timeouts count. */
  function note(outcome: AgentOutcome, isOurs: boolean): void {
    if (outcome.kind !== 'failed') transportFailures = 0
    else if (TRANSPORT.has(outcome.reason) && (isOurs || outcome.reason !== 'timeout')) transportFailures += 1
    if (transportFailures === OPEN_AFTER && !isOurs && !refreshing) {
      schedule(backoffMs({ failures: 1, refreshMs: pace.refreshMs, random }))
    }
  }

  async function callOnce(task: string, args: Arguments, auth: Auth, budget: Budget): Promise<AgentOutcome> {
    const outcome = await slots(budget, async (left) => {
      const startedAt = Date.now()
      const found = await agentFor(auth, left)
      if (found.kind === 'failed') return found
      return found.agent.call(task, args, { ...left, timeoutMs: left.timeoutMs - (Date.now() - startedAt) })
    })
    // What answers there may speak something else now: the next call probes again.
    if (outcome.kind === 'failed' && outcome.reason === 'not_an_agent') agents.delete(credentialName(auth))
    return outcome
  }

  /** A read, repeated while that may help. An upstream that did not answer last time gets a single probe first. */
  async function ask(
    auth: Auth,
    task: string,
    args: Arguments,
    speaking: Dialect | undefined,
  ): Promise<AgentOutcome> {
    const sent = speaking ? argumentsFor(speaking, task, args) : args
    const isProbe = transportFailures > 0
    for (let attempt = 1; ; attempt++) {
      const outcome = await callOnce(task, sent, auth, {
        timeoutMs: pace.timeoutMs,
        signal: lifetime.signal,
      })
      note(outcome, true)
      if (outcome.kind !== 'failed' || isProbe || attempt >= (ATTEMPTS[outcome.reason] ?? 1)) return outcome
      const wait = outcome.retryAfterMs ?? RETRY_MS * 2 ** attempt * (0.5 + random())
      if (wait > LONGEST_RETRY_AFTER_MS || lifetime.signal.aborted) return outcome
      await sleep(wait)
    }
  }

  async function currentDialect(): Promise<{ kind: 'dialect'; value: Dialect } | CallFailure> {
    if (dialect && clock.now() - dialect.readAt < DIALECT_MS) return { kind: 'dialect', value: dialect.value }
    const outcome = await ask(entry.auth, 'get_adcp_capabilities', {}, undefined)
    if (outcome.kind === 'failed') return outcome
    if (outcome.kind === 'error' && isCredentialError(outcome.error)) {
      return callFailed('unauthorized', outcome.error.code)
    }
    const value = dialectOf(outcome)
    if (!value) return callFailed('agent_error', 'its capabilities cannot be read at the moment')
    dialect = { value, readAt: clock.now() }
    return { kind: 'dialect', value }
  }

  function mirrorOf({ scope, auth = entry.auth, account }: Scope): Mirror {
    return createMirror({
      upstream: id,
      agentUrl,
      scope,
      pageSize: pace.pageSize,
      seeds: entry.seeds,
      referencesFor,
      ask: (task, args, speaking) => ask(auth, task, args, speaking),
      sleep,
      now: clock.now,
      ...(account && { account }),
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

  function settle(outcome: MirrorOutcome): void {
    answered = true
    if (outcome.kind === 'public') throw new Error('the public scope has no overlay')
    if (outcome.kind === 'failed') {
      failures += 1
      problem = { reason: outcome.reason, message: outcome.message }
      if (outcome.reason === 'agent_error' || outcome.reason === 'protocol_error') dialect = undefined
      return
    }
    failures = 0
    problem = undefined
    const before = held?.slice // gone when it passed its cap while this refresh was under way
    const { slice } = outcome.held
    const isNew = outcome.kind === 'replaced' || before === undefined
    const isRetold =
      slice.feedVersion !== before?.feedVersion || slice.pricingVersion !== before?.pricingVersion
    keep(outcome.held)
    if (isNew || isRetold) store.save(outcome.held, credential)
    else store.confirm(outcome.held)
    if (isNew) onChange()
  }

  function schedule(ms: number): void {
    if (lifetime.signal.aborted) return
    cancelAttempt?.()
    nextAttemptAt = clock.now() + ms
    cancelAttempt = clock.after(ms, refresh)
  }

  async function refreshOnce(): Promise<void> {
    const speaking = await currentDialect()
    const outcome = speaking.kind === 'failed' ? speaking : await mirror.refresh(held, speaking.value)
    if (lifetime.signal.aborted) return
    settle(outcome)
    const retryAfterMs = outcome.kind === 'failed' ? outcome.retryAfterMs : undefined
    const { refreshMs } = pace
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
        schedule(backoffMs({ failures, refreshMs: pace.refreshMs, random }))
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
      if (saved && clock.now() - saved.confirmedAt <= pace.dropAfterMs) {
        keep({ ...saved, slice: { ...saved.slice, upstream: id } })
        onChange()
      }
      refresh()
    },
    held: () => held,
    /** Refreshes now, or once more when a refresh is under way. */
    refreshSoon(): void {
      if (refreshing) againSoon = true
      else schedule(0)
    },
    async call(
      task: string,
      args: Arguments,
      { deadline, signal, auth }: UpstreamCall,
    ): Promise<AgentOutcome> {
      if (transportFailures >= OPEN_AFTER && nextAttemptAt !== undefined) {
        const wait = Math.max(0, nextAttemptAt - clock.now())
        return callFailed('backing_off', `it failed ${transportFailures} times in a row`, wait)
      }
      const timeoutMs = Math.min(pace.timeoutMs, deadline - clock.now())
      if (timeoutMs <= 0) return callFailed('timeout', 'the deadline has passed')
      const sent = dialect ? argumentsFor(dialect.value, task, args) : args
      const outcome = await callOnce(task, sent, auth ?? entry.auth, { timeoutMs, ...(signal && { signal }) })
      note(outcome, false)
      return outcome
    },
    overlay: overlays.read,
    status(): UpstreamStatus {
      const protocol = agents.peek(credential)?.protocol ?? entry.protocol
      return {
        id,
        url: entry.url,
        name: entry.name,
        state: state(),
        listings: held?.slice.rows.count ?? 0,
        dropped: held?.slice.dropped ?? {},
        ...(protocol && { protocol }),
        ...(held && {
          mode: held.slice.mode,
          walkedAt: held.slice.walkedAt,
          confirmedAt: held.confirmedAt,
        }),
        ...(problem && { problem }),
        ...(nextAttemptAt !== undefined && { nextAttemptAt }),
      }
    },
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
