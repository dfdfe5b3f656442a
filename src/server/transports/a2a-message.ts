/**
 * A2A's messages, in the words of 1.0 and of 0.3 (docs/protocol.md#a2a): which skill a client's message names and with what
 * input, and the response to it, bytes around the payload that MCP sends too. Both names of the input are read; the last data
 * part counts.
 *
 * The protocol's own profile of A2A 1.0 (AdCP A2A Profile Extension v3) is stricter: a request that activates it sends one
 * data part with `skill` and `input`, and nothing that could be read in its place. The card does not require it, since
 * clients of earlier releases do not know it.
 */
import { isRecord } from '../../adcp/json.js'
import { asBytes, type Chunk, type Exchange, wrapped } from '../answer/exchange.js'
import { type RpcRequest, rpcOpening } from '../answer/json-rpc.js'
import type { AnswerPayload } from '../answer/payload.js'
import { type AnsweredTask, artifactMetadata, taskState } from './a2a-tasks.js'

export const PROFILE = 'https://adcontextprotocol.org/extensions/adcp/v3'

/** The methods of A2A's JSON-RPC binding, in the words of 1.0 and of 0.3. A method's name says whose words they are. */
export type A2aRelease = '1.0' | '0.3'

type Method =
  | { kind: 'send'; dialect: A2aRelease; isStream: boolean }
  /** Answered by the official handlers. */
  | { kind: 'other'; dialect: A2aRelease }
  /** Notifications in A2A's own way, which we do not send. */
  | { kind: 'push'; dialect: A2aRelease }

const methods = (kind: 'other' | 'push', dialect: A2aRelease, ...names: string[]): [string, Method][] =>
  names.map((name) => [name, { kind, dialect }])

const METHODS = new Map<string, Method>([
  ['SendMessage', { kind: 'send', dialect: '1.0', isStream: false }],
  ['SendStreamingMessage', { kind: 'send', dialect: '1.0', isStream: true }],
  ['message/send', { kind: 'send', dialect: '0.3', isStream: false }],
  ['message/stream', { kind: 'send', dialect: '0.3', isStream: true }],
  ...methods('other', '1.0', 'GetTask', 'ListTasks', 'CancelTask', 'SubscribeToTask', 'GetExtendedAgentCard'),
  ...methods(
    'other',
    '0.3',
    'tasks/get',
    'tasks/cancel',
    'tasks/resubscribe',
    'agent/getAuthenticatedExtendedCard',
  ),
  ...methods('push', '1.0', 'CreateTaskPushNotificationConfig', 'GetTaskPushNotificationConfig'),
  ...methods('push', '1.0', 'ListTaskPushNotificationConfigs', 'DeleteTaskPushNotificationConfig'),
  ...methods('push', '0.3', 'tasks/pushNotificationConfig/set', 'tasks/pushNotificationConfig/get'),
  ...methods('push', '0.3', 'tasks/pushNotificationConfig/list', 'tasks/pushNotificationConfig/delete'),
])

export const METHOD_NAMES: readonly string[] = [...METHODS.keys()]

const isString = (value: unknown) => typeof value === 'string'
const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 0

/**
 * The types of parameters that several methods share (A2A, "Protocol Data Model"). The official handlers do not check
 * them.
 */
const PARAMETERS: Readonly<Record<string, [what: string, holds: (value: unknown) => boolean]>> = {
  ...{ id: ['a text', isString], contextId: ['a text', isString], pageToken: ['a text', isString] },
  ...{ historyLength: ['a count', isCount], pageSize: ['a count', isCount] },
  includeArtifacts: ['true or false', (value) => typeof value === 'boolean'],
}

/** What 0.3 says of each object, and 1.0 leaves out. */
const KINDS = { task: '"kind":"task",', data: '"kind":"data",', text: '"kind":"text",' }

export type SkillCall = {
  /** Empty when no data part names one: the answer then says what to send. */
  skill: string
  input: unknown
  /** The JSON text of `input.context`. */
  rawContext: () => string | undefined
  contextId?: string
  comesAgain: boolean
}

type MessageRead =
  | { kind: 'skill'; call: SkillCall }
  /** It continues a task; all tasks of ours have ended. */
  | { kind: 'continues'; taskId: string }
  /** It asks to be notified in A2A's way. */
  | { kind: 'wants_push' }
  | { kind: 'malformed'; reason: string }

type SkillData = Record<string, unknown> & { skill: string }

/** A response without what each task has of its own: its id and its time. */
type Shell = { result: string; conversation: string; artifact: string; data: readonly Chunk[] }

/** Undefined for a method that A2A does not have. */
export function methodOf(name: string): Method | undefined {
  return METHODS.get(name)
}

/** What is wrong with the parameters of such a method; undefined when nothing is. */
export function parameterFault(params: unknown): string | undefined {
  if (params === undefined) return undefined
  if (!isRecord(params)) return 'params must be an object'
  for (const [name, [what, holds]] of Object.entries(PARAMETERS)) {
    const value = params[name]
    if (value !== undefined && value !== null && !holds(value)) return `${name} must be ${what}`
  }
  return undefined
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** The last data part that names a skill, by its index in `parts`. */
function skillPart(parts: readonly unknown[]): { at: number; data: SkillData } | undefined {
  for (let at = parts.length - 1; at >= 0; at--) {
    const part = parts[at]
    const data = isRecord(part) ? part.data : undefined
    if (isRecord(data) && isText(data.skill)) return { at, data: data as SkillData }
  }
  return undefined
}

/** The text of a message that is text alone; undefined when a part is anything else. */
function plainText(parts: readonly unknown[]): string | undefined {
  const texts = parts.map((part) => (isRecord(part) && isText(part.text) ? part.text : undefined))
  const text = texts.every((one) => one !== undefined) ? texts.join('\n').trim() : ''
  return text === '' ? undefined : text
}

/**
 * A notification that is asked for in the request, outside the message: `taskPushNotificationConfig` of 1.0,
 * `pushNotificationConfig` of 0.3.
 */
function wantsPush(params: Record<string, unknown>): boolean {
  const { configuration } = params
  if (!isRecord(configuration)) return false
  const { taskPushNotificationConfig: current, pushNotificationConfig: legacy } = configuration
  return isRecord(current) || isRecord(legacy)
}

function readMessage({ params, raw, comesAgain }: RpcRequest): MessageRead {
  const message = isRecord(params) ? params.message : undefined
  if (!isRecord(message)) return { kind: 'malformed', reason: 'params.message must be an object' }
  const { messageId, parts, contextId, taskId } = message
  if (!isText(messageId)) return { kind: 'malformed', reason: 'params.message.messageId must be a string' }
  if (!Array.isArray(parts) || parts.length === 0) {
    return { kind: 'malformed', reason: 'params.message.parts must hold at least one part' }
  }
  if (isText(taskId)) return { kind: 'continues', taskId }
  if (isRecord(params) && wantsPush(params)) return { kind: 'wants_push' }
  const conversation = isText(contextId) ? { contextId } : {}
  const found = skillPart(parts)
  if (!found) {
    const text = plainText(parts)
    const asked =
      text === undefined
        ? { skill: '', input: {} }
        : { skill: 'get_signals', input: { discovery_mode: 'brief', signal_spec: text } }
    return { kind: 'skill', call: { ...asked, rawContext: () => undefined, comesAgain, ...conversation } }
  }
  const { at, data } = found
  const name = data.input === undefined ? 'parameters' : 'input'
  const path = ['params', 'message', 'parts', at, 'data', name, 'context']
  const call = {
    skill: data.skill,
    input: data[name],
    rawContext: () => raw(path),
    comesAgain,
    ...conversation,
  }
  return { kind: 'skill', call }
}

/** The meaning of a message, by the object of its params: a repeated request has the same object. */
const known = new WeakMap<object, MessageRead>()

/** What a message asks of us. Plain text is a brief. */
export function readSkill(request: RpcRequest): MessageRead {
  const { params, comesAgain } = request
  if (!comesAgain || !isRecord(params)) return readMessage(request)
  const before = known.get(params)
  if (before) return before
  const read = readMessage(request)
  known.set(params, read)
  return read
}

/** Whether a request, whose method is in the words of `dialect`, is held to the profile and its answer too. */
export function isProfiled({ raw }: Exchange, dialect: A2aRelease): boolean {
  const named = raw.headers['a2a-extensions']
  if (named === undefined || dialect !== '1.0') return false
  return String(named)
    .split(',')
    .some((uri) => uri.trim() === PROFILE)
}

const isTextPart = (part: unknown) => isRecord(part) && typeof part.text === 'string' && !('data' in part)

function dataFault(data: unknown): string | undefined {
  if (!isRecord(data) || typeof data.skill !== 'string' || data.skill === '') {
    return 'The data part must name a skill: {"skill": ..., "input": {...}}'
  }
  if (!isRecord(data.input)) return 'The data part must hold the request of the skill in input, an object'
  const others = Object.keys(data).filter((name) => name !== 'skill' && name !== 'input')
  return others.length > 0 ? 'The data part must have no member beside skill and input' : undefined
}

/** What in a message is not as the profile says. Its texts are for people and are not looked at. */
export function profileFault(params: unknown): string | undefined {
  const message = isRecord(params) ? params.message : undefined
  const parts = isRecord(message) && Array.isArray(message.parts) ? message.parts : []
  const [first, ...more] = parts.filter((part: unknown) => !isTextPart(part))
  if (!isRecord(first) || more.length > 0) {
    return 'The AdCP profile of A2A takes exactly one data part, and text parts beside it'
  }
  return dataFault(first.data)
}

/**
 * The data part comes first: the protocol's own SDK reads the status from the first part, and an open task from the
 * artifact's metadata.
 */
function shellOf(answered: AnsweredTask, dialect: A2aRelease): Shell {
  const { payload } = answered
  const isCurrent = dialect === '1.0'
  const text = payload.isError ? JSON.stringify(payload.message) : payload.words.json()
  const metadata = artifactMetadata(answered)
  const open = metadata ? `,"metadata":${JSON.stringify(metadata)}` : ''
  const kinds = isCurrent ? { task: '', data: '', text: '' } : KINDS
  return {
    result: isCurrent ? ',"result":{"task":{"id":"' : `,"result":{${kinds.task}"id":"`,
    conversation: `","contextId":${JSON.stringify(payload.contextId)},"status":{"state":"${taskState(payload, dialect)}","timestamp":"`,
    artifact: '"},"artifacts":[{"artifactId":"',
    data: wrapped(
      `-result","name":"result","parts":[{${kinds.data}"data":`,
      payload,
      `},{${kinds.text}"text":${text}}]${open}}]}${isCurrent ? '}}' : '}'}`,
    ),
  }
}

/** A repeated answer shares one frame among all its tasks. */
const shells = new WeakMap<AnswerPayload, Map<string, Shell>>()

function keptShell(answered: AnsweredTask, dialect: A2aRelease): Shell {
  const { payload, profiled } = answered
  if (!payload.comesAgain) return shellOf(answered, dialect)
  const own = shells.get(payload) ?? new Map<string, Shell>()
  shells.set(payload, own)
  const name = profiled ? PROFILE : dialect
  const known = own.get(name)
  if (known) return known
  const made = shellOf(answered, dialect)
  const shell = { ...made, data: asBytes(made.data) }
  own.set(name, shell)
  return shell
}

/**
 * The response that carries a task: one artifact, a data part with the flat payload and a text part
 * (docs/protocol.md#a2a). `id`: JSON text of the request's.
 */
export function taskResponse(
  id: string,
  taskId: string,
  timestamp: string,
  answered: AnsweredTask,
  dialect: A2aRelease,
): Chunk[] {
  const { result, conversation, artifact, data } = keptShell(answered, dialect)
  const opening = `${rpcOpening(id)}${result}${taskId}${conversation}${timestamp}${artifact}${taskId}`
  return [opening, ...data]
}

/** Milliseconds since the epoch as ISO 8601. Many calls are answered in one millisecond. */
export function createTimestamps(): (at: number) => string {
  let [last, text] = [Number.NaN, '']
  return (at) => {
    if (at !== last) [last, text] = [at, new Date(at).toISOString()]
    return text
  }
}
