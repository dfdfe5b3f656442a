/**
 * The connection to one upstream: which transport it speaks when the configuration does not say (docs/protocol.md#mcp, #a2a),
 * one agent per credential, how often a read is repeated, and when further calls are pointless for now
 * (docs/decisions.md#deadlines). Only an answer decides on the transport: a refused credential, a server error or a timeout
 * says nothing about it, and is not remembered.
 */
import { hash } from 'node:crypto'
import type { Send } from '../../net/send.js'
import { createRecent } from '../../process/memory.js'
import { createA2aAgent, findCard } from '../agent/a2a.js'
import {
  type Agent,
  type AgentOptions,
  type AgentOutcome,
  type Arguments,
  type Auth,
  type Budget,
  type CallFailure,
  callFailed,
  type Protocol,
  remaining,
  secretsOf,
  type ToolsOutcome,
  type UpstreamFailure,
  withoutSecrets,
} from '../agent/agent.js'
import { createMcpAgent } from '../agent/mcp.js'
import { UNKNOWN_METHOD } from '../agent/rpc.js'
import { type ToolInputs, toolInputs } from '../agent/tool-list.js'
import type { RosterEntry } from '../roster/roster.js'
import { placesOf } from '../rows/registry-records.js'
import type { ReadLimits, Slots } from './governor.js'

const RETRY_MS = 200
const LONGEST_RETRY_AFTER_MS = 5_000 // for a longer wish, the next scheduled reading is waited for
const MAX_AGENTS = 64 // credentials of callers, each with a session of its own
const BROKEN_AFTER = 3 // failures in a row that make further calls pointless

/** Failures that say the upstream, not the request, is in trouble. */
const TROUBLE: ReadonlySet<UpstreamFailure> = new Set([
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

type ProbeOutcome = { kind: 'found'; agent: Agent } | CallFailure

type Attempt = ProbeOutcome | { kind: 'refused'; message: string }

async function tryMcp(options: AgentOptions, budget: Budget): Promise<Attempt> {
  const agent = createMcpAgent(options)
  const opened = await agent.open(budget)
  return opened.kind === 'open' ? { kind: 'found', agent } : opened
}

async function tryA2a(options: AgentOptions, budget: Budget): Promise<Attempt> {
  const found = await findCard(options, budget)
  if (found.kind === 'none') return { kind: 'refused', message: 'no agent card was found' }
  if (found.kind === 'failed') return found
  return { kind: 'found', agent: createA2aAgent({ ...options, endpoints: found.endpoints }) }
}

function looksLikeA2a(url: string): boolean {
  const { pathname } = new URL(url)
  return /\/a2a\/?$/i.test(pathname) || pathname.endsWith('.json')
}

/** An agent ready to be called. With `protocol` set nothing is sent: the operator's word is enough. */
export async function probe(
  options: AgentOptions,
  protocol: Protocol | undefined,
  budget: Budget,
): Promise<ProbeOutcome> {
  if (protocol === 'mcp') return { kind: 'found', agent: createMcpAgent(options) }
  if (protocol === 'a2a') return { kind: 'found', agent: createA2aAgent(options) }
  const startedAt = Date.now()
  const attempts = looksLikeA2a(options.url) ? [tryA2a, tryMcp] : [tryMcp, tryA2a]
  const refusals: string[] = []
  for (const attempt of attempts) {
    const outcome = await attempt(options, remaining(budget, startedAt))
    if (outcome.kind !== 'refused') return outcome
    refusals.push(outcome.message)
  }
  return callFailed('not_an_agent', refusals.join('; '))
}

/** What calling an upstream takes, whoever calls. */
export type CallingOptions = {
  entry: RosterEntry
  send: Send
  slots: Slots
  /** The value of this moment. */
  timeoutMs(): number
  random(): number
  limits(): ReadLimits
  /** Calls have become pointless: a probe should follow soon. */
  onBroken(): void
}

type LinkOptions = CallingOptions & {
  /** With our signature, where the upstream asks for it: what is sent under the configured credential. */
  signedSend?: Send
  sleep(ms: number): Promise<void>
  /** Ends reads under way that are given no other. */
  signal: AbortSignal
}

/** Names a credential without telling it. */
export function credentialName(auth: Auth): string {
  return auth.type === 'none' ? 'none' : hash('sha256', JSON.stringify(auth)).slice(0, 16)
}

/** Nothing there knows the transport that it was called by, or a server that speaks another one says so. */
function isOtherSpeech(outcome: AgentOutcome): boolean {
  if (outcome.kind === 'error') return outcome.error.rpcCode === UNKNOWN_METHOD
  return outcome.kind === 'failed' && outcome.reason === 'not_an_agent'
}

/** Connects with its first call. */
export function createLink(options: LinkOptions) {
  const {
    entry,
    send,
    signedSend = send,
    slots,
    timeoutMs,
    limits,
    random,
    sleep,
    signal,
    onBroken,
  } = options
  const own = credentialName(entry.auth)
  const agents = createRecent<{ agent: Agent; url: string }>(MAX_AGENTS)
  let places = placesOf(entry)
  let troubles = 0
  let spoken: Protocol | undefined // by what an earlier process found
  let place = entry.url // where it was found last
  let firstAsked = 0 // of its places: each that did not answer in time comes last in the next search

  function protocol(): Protocol | undefined {
    return entry.protocol ?? agents.peek(own)?.agent.protocol ?? spoken
  }

  /** Probes the transport again at the next call. */
  function forget(auth: Auth): void {
    agents.delete(credentialName(auth))
    spoken = undefined
  }

  const secretsWith = (auth: Auth) => places.flatMap((url) => secretsOf(auth, url))

  /** At the first of its places that is an agent; what is told otherwise is how the first one asked failed. */
  async function findAgent(auth: Auth, send: Send, budget: Budget): Promise<ProbeOutcome> {
    const startedAt = Date.now()
    const secrets = secretsWith(auth)
    const bounds = () => {
      const { rowBytes, pageBytes: answerBytes } = limits()
      return { rowBytes, answerBytes, secrets }
    }
    // What it speaks was found at one of its places: which one that was has to be asked.
    const known = places.length > 1 ? entry.protocol : protocol()
    let failure: ProbeOutcome | undefined
    for (const url of [...places.slice(firstAsked), ...places.slice(0, firstAsked)]) {
      const found = await probe({ send, url, auth, bounds }, known, remaining(budget, startedAt))
      if (found.kind === 'found') {
        place = url
        agents.set(credentialName(auth), { agent: found.agent, url })
        return found
      }
      failure ??= found
      if (found.reason !== 'timeout') continue
      firstAsked = (places.indexOf(url) + 1) % places.length
      break // nothing is left of the budget
    }
    return failure as ProbeOutcome // there is at least one place
  }

  async function agentFor(auth: Auth, budget: Budget): Promise<ProbeOutcome> {
    const name = credentialName(auth)
    const known = agents.get(name)
    if (known && places.includes(known.url)) return { kind: 'found', agent: known.agent }
    const isOurs = name === own // a caller's credential is another principal's
    const found = await findAgent(auth, isOurs ? signedSend : send, budget)
    return found
  }

  /** A caller's short deadline is no evidence against the upstream: only our own timeouts count. */
  function note(outcome: AgentOutcome, isOurs: boolean): void {
    if (outcome.kind !== 'failed') troubles = 0
    else if (TROUBLE.has(outcome.reason) && (isOurs || outcome.reason !== 'timeout')) {
      troubles += 1
      if (troubles === BROKEN_AFTER) onBroken()
    }
  }

  async function deliver(task: string, args: Arguments, auth: Auth, budget: Budget): Promise<AgentOutcome> {
    const outcome = await slots(budget, async (left) => {
      const startedAt = Date.now()
      const found = await agentFor(auth, left)
      if (found.kind === 'failed') return found
      return found.agent.call(task, args, remaining(left, startedAt))
    })
    // What answers there may speak something else now: the next call probes again.
    if (isOtherSpeech(outcome)) forget(auth)
    const said = outcome.kind === 'failed' ? { ...outcome, message: `${task}: ${outcome.message}` } : outcome
    return withoutSecrets(said, () => secretsWith(auth))
  }

  /** What is safe to repeat, repeated while that may help; `isProbe`: once. */
  async function repeated<T extends AgentOutcome | ToolsOutcome>(
    ask: () => Promise<T>,
    during: AbortSignal,
    isProbe = false,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const outcome = await ask()
      if (outcome.kind !== 'failed' || isProbe || attempt >= (ATTEMPTS[outcome.reason] ?? 1)) return outcome
      const wait = outcome.retryAfterMs ?? RETRY_MS * 2 ** attempt * (0.5 + random())
      if (wait > LONGEST_RETRY_AFTER_MS || during.aborted) return outcome
      await sleep(wait)
    }
  }

  async function toolsOnce(auth: Auth, during: AbortSignal): Promise<ToolsOutcome> {
    const budget = { timeoutMs: timeoutMs(), signal: during }
    const found = await agentFor(auth, budget)
    return found.kind === 'found' ? await found.agent.tools(budget) : found
  }

  return {
    protocol,
    place: () => place,
    /**
     * Takes up other places of the agent, as the registries name them, and goes on where it was found. False when it has to be
     * looked for anew: it was found at none of them, or it was not found and there is a new one.
     */
    takePlaces(next: readonly string[]): boolean {
      const known = agents.peek(own)
      const goesOn = known ? next.includes(known.url) : next.every((one) => places.includes(one))
      if (goesOn) places = next
      return goesOn
    },
    /** What its tools take, where it says so. Nothing rests on it alone: what fails is in the end as if it said nothing. */
    async tools(auth: Auth, during: AbortSignal): Promise<ToolInputs | undefined> {
      const outcome = await repeated(() => toolsOnce(auth, during), during)
      return outcome.kind === 'tools' ? outcome.tools && toolInputs(outcome.tools) : undefined
    },
    /** Failures in a row, when they are so many that calling is pointless. */
    broken: (): number | undefined => (troubles >= BROKEN_AFTER ? troubles : undefined),
    forget: () => forget(entry.auth),
    /** Until a call finds otherwise. */
    expect(protocol: Protocol | undefined): void {
      spoken = protocol
    },
    /** A call, sent once. */
    async call(task: string, args: Arguments, auth: Auth, budget: Budget): Promise<AgentOutcome> {
      const outcome = await deliver(task, args, auth, budget)
      note(outcome, false)
      return outcome
    },
    /**
     * A read, repeated while that may help. An upstream that did not answer last time gets a single probe first. `isAwaited`:
     * a call waits for it.
     */
    async read(
      task: string,
      args: Arguments,
      auth: Auth,
      during: AbortSignal = signal,
      isAwaited = false,
    ): Promise<AgentOutcome> {
      const once = async () => {
        const budget = { timeoutMs: timeoutMs(), signal: during, isAwaited }
        const outcome = await deliver(task, args, auth, budget)
        note(outcome, true)
        return outcome
      }
      return await repeated(once, during, troubles > 0)
    },
  }
}
