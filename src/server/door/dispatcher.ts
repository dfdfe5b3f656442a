/**
 * From a task's name and arguments to its payload: version, limits, access, request schema, handler, envelope, in
 * this order, once for both transports (docs/protocol.md#versions, #envelope). A caller's mistake is an answer; an
 * exception here is a bug.
 */
import { hash, randomBytes } from 'node:crypto'
import {
  type AdcpError,
  type Answer,
  negotiate,
  type Preview,
  type Release,
  refuse,
  type VersionPin,
} from '../../adcp/answer.js'
import type { Caller } from '../../adcp/caller.js'
import { nearest } from '../../adcp/issue-words.js'
import { isRecord } from '../../adcp/json.js'
import { type Checked, compileCheck, invalidRequest, type TSchema } from '../../adcp/schema.js'
import { createDeadline } from '../../net/clock.js'
import { createRecent } from '../../process/memory.js'
import type { CallContext, Task } from '../../tasks/task.js'
import { whenOver } from '../answer/connection.js'
import type { Exchange } from '../answer/exchange.js'
import { type AnswerPayload, type Envelope, payloadOf } from '../answer/payload.js'
import { type RateLimiter, registersSecret } from './admission.js'
import type { Identified } from './credentials.js'
import { rateError, UNSIGNED_ERROR } from './turned-away.js'

/** The longest time_budget is 120 s (docs/protocol.md#envelope); what is left is for merging and writing. */
const CALL_MS = 130_000
const MAX_CONTEXTS = 10_000
const CONTEXT_ID = /^[A-Za-z0-9_.:-]{1,128}$/

/** What the saved feed was merged from has not been read in time, or cannot be. */
const NOT_THERE = refuse('SERVICE_UNAVAILABLE', 'This agent has just started and is still reading.', {
  retry_after: 1,
  suggestion: 'Repeat the request after retry_after seconds.',
})

/** What the transport knows about a call. */
type CallOrigin = {
  readonly transport: 'mcp' | 'a2a'
  readonly requestId: string
  readonly comesAgain: boolean
  /** Made only when a task asks for it. */
  readonly signal: () => AbortSignal
}

export type TaskCall = CallOrigin & {
  task: string
  arguments: unknown
  /** The JSON text of `arguments.context`; asked for only when there is one. */
  rawContext: () => string | undefined
  /** The transport's own conversation id, when it has one. */
  contextId: string | undefined
  who: Extract<Identified, { kind: 'caller' | 'denied' }>
}

export type Observed = {
  task: string
  transport: 'mcp' | 'a2a'
  /** Which of the task's questions it was, for tasks that have several (tasks/task.ts). */
  mode: string | undefined
  /** `completed` and its like, or the error's code. */
  outcome: string
  ms: number
  requestId: string
}

type DispatcherOptions = {
  tasks: readonly Task[]
  limiter: RateLimiter
  /** Releases that are not final and are served all the same. */
  previews: readonly Preview[]
  now: () => number
  observe: (observed: Observed) => void
  /**
   * As long as only the rows of a saved feed are there: what any but a plain question waits for (tasks/task.ts), and whether
   * it came.
   */
  rest?: () => Promise<boolean> | undefined
  /** Told of every exception a task threw. */
  onBug: (error: unknown, call: TaskCall) => void
}

type Entry = { task: Task; check: (value: unknown) => Checked<TSchema> }

/** What is known about repeated arguments: they have passed the check. */
type Settled = { entry: Entry; release: Release; holdsSecret: boolean }

/**
 * The conversation of a caller who names none, under a name that only this process can make: nothing is remembered under
 * it. The same for each of its calls, so that equal questions get equal bytes.
 */
function createContextIds(): (bucket: string) => string {
  const secret = randomBytes(16).toString('base64url')
  const known = createRecent<string>(MAX_CONTEXTS)
  return (bucket) => {
    const found = known.get(bucket)
    if (found !== undefined) return found
    const made = `ctx_${hash('sha256', `${secret} ${bucket}`, 'base64url').slice(0, 22)}`
    known.set(bucket, made)
    return made
  }
}

/**
 * The signal that stops a task: at its deadline, or when its caller closes the connection
 * (docs/decisions.md#deadlines). It is created only when a task asks for it, because most tasks answer at once.
 */
export function hangUpSignal({ response }: Pick<Exchange, 'response'>): AbortSignal {
  const gone = new AbortController()
  const deadline = createDeadline({ timeoutMs: CALL_MS, signal: gone.signal })
  whenOver(response, () => {
    if (!response.writableFinished) gone.abort()
    deadline.release()
  })
  return deadline.signal()
}

/**
 * A class for its one lazy member: a getter in an object literal makes a hidden class each time, which costs a microsecond
 * and is old-space garbage that holds the whole call.
 */
class Context implements CallContext {
  readonly transport: 'mcp' | 'a2a'
  readonly requestId: string
  readonly comesAgain: boolean
  readonly #origin: CallOrigin
  #signal: AbortSignal | undefined

  constructor(
    readonly caller: Caller,
    readonly release: Release,
    readonly now: number,
    readonly deadline: number,
    readonly contextId: string,
    origin: CallOrigin,
  ) {
    this.transport = origin.transport
    this.requestId = origin.requestId
    this.comesAgain = origin.comesAgain
    this.#origin = origin
  }

  get signal(): AbortSignal {
    this.#signal ??= this.#origin.signal()
    return this.#signal
  }
}

/** The pins that are well formed; the others are for the request schema to refuse. */
function pinsOf(input: Record<string, unknown>): VersionPin {
  const { adcp_version: version, adcp_major_version: major } = input
  const pin: VersionPin = {}
  if (typeof version === 'string' && /^\d+\.\d+(-[a-zA-Z0-9.-]+)?$/.test(version)) pin.adcp_version = version
  if (typeof major === 'number') pin.adcp_major_version = major
  return pin
}

/** The door finds tasks by their names in the body; a call that it could not recognise is refused here. */
function needsSignature({ who }: TaskCall, isMutating: boolean, holdsSecret: () => boolean): boolean {
  if (who.kind !== 'caller' || who.signature === undefined) return false
  return (isMutating && who.signature === 'required') || holdsSecret()
}

export function createDispatcher(options: DispatcherOptions) {
  const { limiter, now, observe, onBug } = options
  const contextIdOf = createContextIds()
  const entries = new Map<string, Entry>()
  const settled = new WeakMap<object, Settled>()
  for (const task of options.tasks) {
    const entry = { task, check: compileCheck(task.request) }
    for (const name of [task.name, ...(task.aliases ?? []), ...(task.answersTo ?? [])]) {
      if (entries.has(name)) throw new Error(`Two tasks are named ${name}`)
      entries.set(name, entry)
    }
  }

  function contextIdFor(call: TaskCall): string {
    const asked = isRecord(call.arguments) ? call.arguments.context_id : undefined
    const given = asked ?? call.contextId
    return typeof given === 'string' && CONTEXT_ID.test(given) ? given : contextIdOf(call.who.bucket)
  }

  function envelopeOf(call: TaskCall): Envelope {
    const envelope: Envelope = { release: '3.1', contextId: contextIdFor(call) }
    const context = isRecord(call.arguments) && isRecord(call.arguments.context) && call.rawContext()
    if (context) envelope.context = context
    return envelope
  }

  function contextOf(call: TaskCall, { contextId, release }: Envelope, arrived: number): CallContext {
    if (call.who.kind !== 'caller') throw new Error('A denied caller reached a task')
    return new Context(call.who.caller, release, arrived, arrived + CALL_MS, contextId, call)
  }

  /** Everything before the handler; undefined when the call may go on. */
  function gate(call: TaskCall, input: unknown, arrived: number): Answer | undefined {
    const { who } = call
    if (who.kind === 'denied') {
      return refuse('AGENT_ACCESS_DENIED', 'These credentials do not give access to this signals agent.', {
        suggestion: 'Ask the operator of this agent to let your principal in.',
      })
    }
    const wait = limiter.take(who.bucket, arrived)
    if (wait > 0) return { kind: 'refused', error: rateError(wait) }
    if (!isRecord(input)) {
      return {
        kind: 'refused',
        error: invalidRequest([
          {
            pointer: '',
            message: 'must be an object',
            keyword: 'type',
            suggestion: 'Send the arguments of the task as a JSON object.',
          },
        ]),
      }
    }
    return undefined
  }

  function guarded(run: () => Answer | Promise<Answer>, call: TaskCall): Answer | Promise<Answer> {
    const bug = (error: unknown): Answer => {
      onBug(error, call)
      return refuse('SERVICE_UNAVAILABLE', 'Something went wrong on our side.', {
        retry_after: 5,
        suggestion: 'Repeat the request; when it fails again, tell the operator of this agent.',
      })
    }
    try {
      const answer = run()
      return answer instanceof Promise ? answer.catch(bug) : answer
    } catch (error) {
      return bug(error)
    }
  }

  /** The task's answer, once there is all that it may need. */
  function handled({ task }: Entry, input: unknown, context: CallContext, call: TaskCall) {
    const rest = options.rest?.()
    if (!rest || task.isPlain?.(input, context.caller))
      return guarded(() => task.handle(input, context), call)
    return guarded(() => rest.then((isThere) => (isThere ? task.handle(input, context) : NOT_THERE)), call)
  }

  function answer(
    entry: Entry,
    call: TaskCall,
    envelope: Envelope,
    arrived: number,
  ): Answer | Promise<Answer> {
    const { task, check } = entry
    const input = call.arguments === undefined ? {} : call.arguments
    const stopped = gate(call, input, arrived)
    if (stopped) return stopped
    const before = call.comesAgain ? settled.get(input as object) : undefined
    const known = before?.entry === entry ? before : undefined
    const release = known?.release ?? negotiate(pinsOf(input as Record<string, unknown>), options.previews)
    if (typeof release !== 'string') return { kind: 'refused', error: release }
    envelope.release = release
    const context = contextOf(call, envelope, arrived)
    if (task.mutating && context.caller.role === 'anonymous') {
      return refuse('AUTH_REQUIRED', 'This task needs credentials.', {
        suggestion: 'Send Authorization: Bearer with a key of this agent.',
      })
    }
    const holdsSecret = () => known?.holdsSecret ?? registersSecret(input)
    if (needsSignature(call, task.mutating, holdsSecret)) {
      return { kind: 'refused', error: UNSIGNED_ERROR }
    }
    if (known) return handled(entry, input, context, call)
    const checked = check(input)
    if (!checked.ok) return { kind: 'refused', error: invalidRequest(checked.issues) }
    if (call.comesAgain && checked.value === input && isRecord(input)) {
      settled.set(input, { entry, release, holdsSecret: holdsSecret() })
    }
    return handled(entry, checked.value, context, call)
  }

  /** The payload of one call; synchronous when the task is. Throws when there is no such task. */
  function run(call: TaskCall): AnswerPayload | Promise<AnswerPayload> {
    const entry = entries.get(call.task)
    if (!entry) throw new Error(`No task is named ${call.task}`)
    const arrived = now()
    const envelope = envelopeOf(call)
    const finish = (said: Answer): AnswerPayload => {
      const payload = payloadOf(said, envelope)
      const outcome = payload.error?.code ?? payload.status
      const { transport, requestId } = call
      const { name: task, modeOf } = entry.task
      observe({ task, transport, mode: modeOf?.(call.arguments), outcome, ms: now() - arrived, requestId })
      return payload
    }
    const said = answer(entry, call, envelope, arrived)
    return said instanceof Promise ? said.then(finish) : finish(said)
  }

  /** A failure of a call that names no task of ours, in the envelope a task would have. */
  function refused(call: TaskCall, error: AdcpError): AnswerPayload {
    return payloadOf({ kind: 'refused', error }, envelopeOf(call))
  }

  /** Names that are offered and near to one that is not ours. */
  function near(name: string): string[] {
    return nearest(
      name,
      options.tasks.map((task) => task.name),
    )
  }

  return { has: (name: string) => entries.has(name), near, run, refused }
}

export type Dispatcher = ReturnType<typeof createDispatcher>
