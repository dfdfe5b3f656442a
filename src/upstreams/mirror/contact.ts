/**
 * How one upstream is spoken to: the line to it and the dialect that it speaks, shared by all scopes that are read from
 * it and by callers' own calls. Made anew when its place, transport or credential changes.
 */

import type { Clock } from '../../net/clock.js'
import { pause } from '../../net/pause.js'
import type { Send } from '../../net/send.js'
import type { Signer } from '../../signing/sign.js'
import { createSignedSend } from '../../signing/signed-send.js'
import { type AgentOutcome, type Arguments, type Auth, type CallFailure, callFailed } from '../agent/agent.js'
import {
  argumentsFor,
  cannotSay,
  type Dialect,
  dialectOf,
  isCredentialError,
  recognises,
  untold,
} from '../agent/dialect.js'
import { createLink } from '../agent/link.js'
import type { Slots } from '../agent/slots.js'
import type { ReadLimits } from '../governor.js'
import type { RosterEntry } from '../roster/roster.js'
import { unpriced } from '../rows/unpriced.js'

const DIALECT_MS = 24 * 60 * 60 * 1_000

export type UpstreamCall = {
  /** Ms since the epoch. */
  deadline: number
  signal?: AbortSignal
  /** A caller's own credential for this upstream instead of the configured one. */
  auth?: Auth
  /** It may have been sent before, first at this time: only an agent that recognises the repetition gets it. */
  sentAt?: number
}

export type ContactOptions = {
  entry: RosterEntry
  send: Send
  /** Signs requests of agents that ask for it. */
  sign?: Signer
  slots: Slots
  timeoutMs(): number
  limits(): ReadLimits
  clock: Clock
  random(): number
  /** What the agent says of itself is known, or is another thing than before. */
  onDialect(): void
  /** Calls have become pointless: somebody should probe soon. */
  onBroken(): void
  /** When the next probe is due, ms since the epoch. */
  nextProbeAt(): number | undefined
}

export function createContact(options: ContactOptions) {
  const { entry, send, sign, slots, timeoutMs, limits, clock, random, onDialect, onBroken, nextProbeAt } =
    options
  const lifetime = new AbortController()
  const { signal } = lifetime
  const sleep = (ms: number) => pause(clock, ms, signal)
  const wish = () => known?.value.signing
  const signedSend = sign && createSignedSend({ send, sign, wish, now: clock.now })
  const link = createLink({
    entry,
    send,
    ...(signedSend && { signedSend }),
    slots,
    timeoutMs,
    limits,
    random,
    sleep,
    signal,
    onBroken,
  })
  let known: { value: Dialect; readAt: number } | undefined
  let isPersonal: boolean | undefined

  /**
   * Where nobody's account was named, prices that the agent calls an account's are those of our credential: they are for
   * everybody only where the operator says so (docs/upstreams.md, "Prices for accounts only").
   */
  function shared(task: string, outcome: AgentOutcome, args: Arguments, auth: Auth): AgentOutcome {
    if (task !== 'get_signals' || outcome.kind !== 'answer' || args.account || auth !== entry.auth)
      return outcome
    const { cache_scope: scope } = outcome.payload
    if (typeof scope === 'string') isPersonal = scope === 'account'
    return isPersonal && entry.accountPrices !== 'public'
      ? { ...outcome, rows: unpriced(outcome.rows) }
      : outcome
  }

  /** Declared by the agent itself. */
  const providerDomains = (): readonly string[] => known?.value.providerDomains ?? []

  function keep(value: Dialect, readAt: number): void {
    const before = providerDomains().join()
    known = { value, readAt }
    if (providerDomains().join() !== before) onDialect()
  }

  async function dialect(): Promise<{ kind: 'dialect'; value: Dialect } | CallFailure> {
    if (known && clock.now() - known.readAt < DIALECT_MS) return { kind: 'dialect', value: known.value }
    const outcome = await link.read('get_adcp_capabilities', {}, entry.auth)
    if (outcome.kind === 'failed') return outcome
    if (outcome.kind === 'error' && isCredentialError(outcome.error)) {
      return callFailed('unauthorized', outcome.error.code)
    }
    const value = dialectOf(outcome)
    if (!value) return callFailed('agent_error', 'its capabilities cannot be read at the moment')
    const tools = await link.tools(entry.auth)
    const learnt = { ...value, ...(tools && { tools }) }
    keep(learnt, clock.now())
    return { kind: 'dialect', value: learnt }
  }

  /** What is sent depends on who is spoken to, so it is asked first; the answer is kept for a day. */
  async function dialectBy(deadline: number): ReturnType<typeof dialect> {
    const inTime = new AbortController()
    const late = pause(clock, deadline - clock.now(), inTime.signal)
    try {
      return await Promise.race([
        dialect(),
        late.then(() => callFailed('timeout', 'the deadline has passed')),
      ])
    } finally {
      inTime.abort()
    }
  }

  async function call(
    task: string,
    args: Arguments,
    { deadline, signal: given, auth = entry.auth, sentAt }: UpstreamCall,
  ): Promise<AgentOutcome> {
    const troubles = link.broken()
    const probeAt = nextProbeAt()
    if (troubles !== undefined && probeAt !== undefined) {
      const wait = Math.max(0, probeAt - clock.now())
      return callFailed('backing_off', `it failed ${troubles} times in a row`, wait)
    }
    const speaking = await dialectBy(deadline)
    if (speaking.kind === 'failed') return speaking
    const left = Math.min(timeoutMs(), deadline - clock.now())
    if (left <= 0) return callFailed('timeout', 'the deadline has passed')
    const field = untold(speaking.value, task, args)
    const message = cannotSay(speaking.value, task, args) ?? (field && `this agent cannot be told ${field}`)
    if (message) {
      const error = { code: 'UNSUPPORTED_FEATURE', message, unsent: true } as const
      return { kind: 'error', error: { ...error, ...(field && { field }) } }
    }
    if (sentAt !== undefined && !recognises(speaking.value, task, args, clock.now() - sentAt)) {
      return callFailed('unrepeatable', 'it would take the repetition for a second request')
    }
    const sent = argumentsFor(speaking.value, task, args)
    const budget = { timeoutMs: left, ...(given && { signal: given }) }
    return shared(task, await link.call(task, sent, auth, budget), sent, auth)
  }

  return {
    dialect,
    sleep,
    /** One safe-to-repeat call, in the dialect given or raw. */
    async read(
      task: string,
      args: Arguments,
      speaking: Dialect | undefined,
      auth: Auth,
    ): Promise<AgentOutcome> {
      const sent = speaking ? argumentsFor(speaking, task, args) : args
      return shared(task, await link.read(task, sent, auth), sent, auth)
    },
    call,
    /** The dialect turned out to be another one. */
    correct(value: Dialect): void {
      if (known && known.value !== value) keep(value, known.readAt)
    },
    /** It may be another release now: the next read asks again; `transport`: for what it speaks, too. */
    doubt(transport: boolean): void {
      known = undefined
      if (transport) link.forget()
    },
    providerDomains,
    /** Its prices are told for accounts only: whether they are shown all the same. `before`: what an earlier process was told. */
    accountPrices: (before: boolean): 'public' | 'withheld' | undefined =>
      (isPersonal ?? before) ? (entry.accountPrices ?? 'withheld') : undefined,
    protocol: link.protocol,
    /** Whether it was closed: what was read through it counts for nothing any more. */
    isClosed: () => signal.aborted,
    /** Ends what is under way. */
    close: () => lifetime.abort(),
  }
}

export type Contact = ReturnType<typeof createContact>
