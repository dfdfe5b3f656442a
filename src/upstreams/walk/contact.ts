/**
 * How one upstream is spoken to: the link to it and the dialect that it speaks, shared by all scopes that are read from it and
 * by callers' own calls. Made anew when its places, transport or credential change.
 */
import { howMany } from '../../adcp/answer.js'
import { backoffMs, type Clock, pause, within } from '../../net/clock.js'
import { createSignedSend, type Signer } from '../../signing/signature.js'
import {
  type AgentOutcome,
  type Arguments,
  type Auth,
  type Budget,
  type CallFailure,
  callFailed,
  isRead,
  type UpstreamFailure,
} from '../agent/agent.js'
import {
  argumentsFor,
  type Dialect,
  dialectOf,
  isCredentialError,
  recognises,
  unsaid,
} from '../agent/dialect.js'
import { nameOf } from '../agent/tool-inputs.js'
import { type AccountPrices, createAccountPrices } from './account-prices.js'
import type { LearntStore } from './learnt.js'
import { type CallingOptions, createLink, credentialName } from './link.js'

const DIALECT_MS = 24 * 60 * 60 * 1_000
const CAPABILITIES = 'get_adcp_capabilities'
const PROBE_WITHIN_MS = 60_000
const LEAST_MS = 1_000 // that must be left for the answer when a change is sent

/**
 * Failures that an agent may have because it is spoken to in words that are no longer its own, or were those of one among several
 * processes behind its url.
 */
const OF_ITS_SPEECH: ReadonlySet<UpstreamFailure> = new Set([
  'agent_error',
  'account_needed',
  'not_enumerable',
  'not_signals',
  'protocol_error',
  'shrunken_feed',
])

export type UpstreamCall = {
  /** Ms since the epoch. */
  deadline: number
  signal?: AbortSignal
  /** A caller's own credential for this upstream instead of the configured one. */
  auth?: Auth
  /** The account of the buyer for whom it is, where that does not stand in the arguments. */
  account?: unknown
  /** It may have been sent before, first at this time: only an agent that recognises the repetition gets it. */
  sentAt?: number
}

type ContactOptions = CallingOptions & {
  /** Signs requests of agents that ask for it. */
  sign?: Signer
  clock: Clock
  learnt: LearntStore
  /** Called when what the agent says about itself is first known, or has changed. */
  onDialect(): void
  /** Whether this process reads the agent's feed: then that is how it finds out that the agent answers again. */
  isReader(): boolean
  /** When it is read next, ms since the epoch. */
  nextReadingAt(): number | undefined
}

function messageOf(outcome: AgentOutcome): string {
  if (outcome.kind === 'answer') return 'its answer is not read'
  return outcome.kind === 'failed' ? outcome.message : `${outcome.error.code}: ${outcome.error.message}`
}

/** Calls nobody before it is asked to. */
export function createContact(options: ContactOptions) {
  const { entry, send, sign, timeoutMs, clock, learnt, onDialect, isReader, nextReadingAt } = options
  const credential = credentialName(entry.auth)
  const prices = createAccountPrices(entry, learnt)
  const lifetime = new AbortController()
  const { signal } = lifetime
  const forCalls = new AbortController() // of readings that calls wait for: as calls do, they outlast the contact
  let waiting = 0 // calls
  const sleep = (ms: number) => pause(clock, ms, signal)
  const wish = () => known?.value.signing
  const signedSend = sign && createSignedSend({ send, sign, wish, now: clock.now })
  const onBroken = () => {
    options.onBroken()
    if (!isProbing) void probe()
  }
  const link = createLink({ ...options, ...(signedSend && { signedSend }), sleep, signal, onBroken })
  let isProbing = false
  let probeAt: number | undefined
  let known: { value: Dialect; readAt: number } | undefined
  let isDoubted = false // what is known holds until the agent has been asked again
  let restored: Promise<void> | undefined

  /** Asks a small question now and then until one is answered: no reading would tell a process that does not read. */
  async function probe(): Promise<void> {
    isProbing = true
    for (let failures = 1; link.broken() !== undefined && !signal.aborted; ) {
      const waitMs = backoffMs({ failures, refreshMs: PROBE_WITHIN_MS, random: options.random })
      probeAt = clock.now() + waitMs
      await sleep(waitMs)
      failures = isReader() ? 1 : failures + 1
      if (!isReader() && link.broken() !== undefined) await link.read(CAPABILITIES, {}, entry.auth)
    }
    isProbing = false
  }

  /** Whether what comes back is a buyer's own: asked with his credential, or for his account, in a dialect that can name one. */
  function isBuyers(speaking: Dialect | undefined, account: unknown, auth: Auth): boolean {
    if (account === undefined || auth !== entry.auth) return auth !== entry.auth
    return !speaking || argumentsFor(speaking, 'get_signals', { account }).account === account
  }

  /** What may be shown of an answer to whom it is for. */
  async function shown(
    outcome: AgentOutcome,
    isForBuyer: boolean,
    ofPrices: AccountPrices['shared'],
  ): Promise<AgentOutcome> {
    if (outcome.kind !== 'answer') return outcome
    // Who writes the plural id takes it, as far as no list of tools says otherwise.
    if (outcome.rows.quirks.includes('signals_agent_segment_id') && known?.value.release === 'older') {
      keep({ ...known.value, release: 'plural' }, known.readAt)
    }
    return isForBuyer ? outcome : await ofPrices(outcome)
  }

  /** Declared by the agent itself. */
  const providerDomains = (): readonly string[] => known?.value.providerDomains ?? []

  function take(value: Dialect, readAt: number): void {
    const before = providerDomains().join()
    known = { value, readAt }
    if (providerDomains().join() !== before) onDialect()
  }

  function keep(value: Dialect, readAt: number): void {
    take(value, readAt)
    if (signal.aborted) return // another contact may have taken its place, and learns for itself
    const protocol = link.protocol()
    learnt.save(entry.agentUrl, { dialect: value, ...(protocol && { protocol }), credential, readAt })
  }

  /** Takes up what an earlier process learnt with the same credential. */
  async function restore(): Promise<void> {
    const saved = await learnt.load(entry.agentUrl)
    if (!saved || saved.credential !== credential) return
    link.expect(saved.protocol)
    take(saved.dialect, saved.readAt)
  }

  async function dialect(
    during = signal,
    isAwaited = false,
  ): Promise<{ kind: 'dialect'; value: Dialect } | CallFailure> {
    restored ??= restore()
    await restored
    if (known && !isDoubted && clock.now() - known.readAt < DIALECT_MS)
      return { kind: 'dialect', value: known.value }
    let outcome = await link.read(CAPABILITIES, {}, entry.auth, during, isAwaited)
    if (outcome.kind === 'failed') return outcome
    if (outcome.kind === 'error' && isCredentialError(outcome.error)) {
      return callFailed('unauthorized', `${CAPABILITIES}: ${messageOf(outcome)}`)
    }
    const tools = await link.tools(entry.auth, during)
    const name = nameOf(CAPABILITIES, tools)
    if (outcome.kind === 'error' && name !== CAPABILITIES)
      outcome = await link.read(name, {}, entry.auth, during, isAwaited)
    const told = dialectOf(outcome)
    if (!told) return callFailed('agent_error', `${CAPABILITIES}: ${messageOf(outcome)}`)
    const protocol = link.protocol()
    const value = { ...told, ...(protocol && { protocol }), ...(tools && { tools }) }
    isDoubted = false
    keep(value, clock.now())
    return { kind: 'dialect', value }
  }

  /** The dialect is needed before a request can be written, so it is asked for first; the answer is kept for a day. */
  async function dialectBy(deadline: number): ReturnType<typeof dialect> {
    const limits = { timeoutMs: deadline - clock.now(), clock }
    const reading = dialect(forCalls.signal, true)
    waiting += 1
    try {
      return await within(reading, limits, () => callFailed('timeout', 'the deadline has passed'))
    } finally {
      waiting -= 1
      endUnawaited()
    }
  }

  function endUnawaited(): void {
    if (signal.aborted && waiting === 0) forCalls.abort()
  }

  /** `maySend`: for changes, which are not sent any more when too little time is left; asked just before one is. */
  async function ask(
    task: string,
    args: Arguments,
    { deadline, signal: given, auth = entry.auth, account = args.account, sentAt }: UpstreamCall,
    maySend?: () => boolean,
  ): Promise<AgentOutcome> {
    const troubles = link.broken()
    const againAt = isReader() ? nextReadingAt() : probeAt
    if (troubles !== undefined && againAt !== undefined) {
      const wait = Math.max(0, againAt - clock.now())
      return callFailed('backing_off', `it failed ${howMany(troubles, 'time')} in a row`, wait)
    }
    const speaking = await dialectBy(deadline)
    if (speaking.kind === 'failed') return speaking
    const left = Math.min(timeoutMs(), deadline - clock.now())
    if (left <= 0) return callFailed('timeout', 'the deadline has passed')
    const refusal = unsaid(speaking.value, task, args)
    if (refusal) return { kind: 'error', error: { code: 'UNSUPPORTED_FEATURE', unsent: true, ...refusal } }
    if (sentAt !== undefined && !recognises(speaking.value, task, args, clock.now() - sentAt)) {
      return callFailed('unrepeatable', 'it would take the repetition for a second request')
    }
    const sent = argumentsFor(speaking.value, task, args)
    const until = Date.now() + left // budgets are of real time
    const budget: Budget = { timeoutMs: left, isAwaited: true, ...(given && { signal: given }) }
    if (maySend) {
      budget.mayBegin = () => until - Date.now() >= Math.min(LEAST_MS, timeoutMs() / 2) && maySend()
    }
    const name = nameOf(task, speaking.value.tools)
    const outcome = await link.call(name, sent, auth, budget)
    return await shown(outcome, isBuyers(speaking.value, account, auth), prices.shared)
  }

  /**
   * A change is not sent when too little time is left for its answer: what came of it would be unknown. Nor is one that was told as
   * not sent, which may still wait for a place that others have.
   */
  async function call(task: string, args: Arguments, given: UpstreamCall): Promise<AgentOutcome> {
    if (isRead(task)) return await ask(task, args, given)
    let [isSent, isOver] = [false, false]
    const outcome = await ask(task, args, given, () => {
      isSent ||= !isOver
      return !isOver
    })
    isOver = true
    return outcome.kind === 'failed' && !isSent ? { ...outcome, unsent: true } : outcome
  }

  return {
    dialect,
    /** What is known of how it speaks, without asking. */
    knownDialect: (): Dialect | undefined => known?.value,
    sleep,
    /** One safe-to-repeat call, in the dialect given or raw. */
    async read(
      task: string,
      args: Arguments,
      speaking: Dialect | undefined,
      auth: Auth,
    ): Promise<AgentOutcome> {
      const sent = speaking ? argumentsFor(speaking, task, args) : args
      const name = nameOf(task, (speaking ?? known?.value)?.tools)
      return await shown(
        await link.read(name, sent, auth),
        isBuyers(speaking, args.account, auth),
        prices.read,
      )
    },
    call,
    /** The dialect turned out to be another one. */
    correct(value: Dialect): void {
      if (known && known.value !== value) keep(value, known.readAt)
    },
    /** A reading failed. It may be another release now: the next one asks again. */
    refused(reason: UpstreamFailure): void {
      if (!OF_ITS_SPEECH.has(reason)) return
      isDoubted = true
      if (reason === 'protocol_error') link.forget()
    },
    providerDomains,
    prices,
    protocol: link.protocol,
    /** Where it is called. */
    place: link.place,
    takePlaces: link.takePlaces,
    /** Whether it was closed: what was read through it counts for nothing any more. */
    isClosed: () => signal.aborted,
    /** Aborts its readings, except those that calls wait for. Calls go on to their end. */
    close() {
      lifetime.abort()
      endUnawaited()
    },
    /** Aborts those as well. */
    end() {
      lifetime.abort()
      forCalls.abort()
    },
  }
}

export type Contact = ReturnType<typeof createContact>
