/** The methods of A2A's JSON-RPC binding, in the words of 1.0 and of 0.3. A method's name says whose words they are. */

import { isRecord } from '../../adcp/json.js'

export type A2aRelease = '1.0' | '0.3'

export type Method =
  | { kind: 'send'; dialect: A2aRelease; isStream: boolean }
  /** Answered by the official handlers. */
  | { kind: 'other'; dialect: A2aRelease }
  /** Notifications in A2A's own way, which we do not send. */
  | { kind: 'push' }

const other = (dialect: A2aRelease, ...names: string[]): [string, Method][] =>
  names.map((name) => [name, { kind: 'other', dialect }])

const push = (...names: string[]): [string, Method][] => names.map((name) => [name, { kind: 'push' }])

const METHODS = new Map<string, Method>([
  ['SendMessage', { kind: 'send', dialect: '1.0', isStream: false }],
  ['SendStreamingMessage', { kind: 'send', dialect: '1.0', isStream: true }],
  ['message/send', { kind: 'send', dialect: '0.3', isStream: false }],
  ['message/stream', { kind: 'send', dialect: '0.3', isStream: true }],
  ...other('1.0', 'GetTask', 'ListTasks', 'CancelTask', 'SubscribeToTask', 'GetExtendedAgentCard'),
  ...other('0.3', 'tasks/get', 'tasks/cancel', 'tasks/resubscribe', 'agent/getAuthenticatedExtendedCard'),
  ...push('CreateTaskPushNotificationConfig', 'GetTaskPushNotificationConfig'),
  ...push('ListTaskPushNotificationConfigs', 'DeleteTaskPushNotificationConfig'),
  ...push('tasks/pushNotificationConfig/set', 'tasks/pushNotificationConfig/get'),
  ...push('tasks/pushNotificationConfig/list', 'tasks/pushNotificationConfig/delete'),
])

/** Undefined for a method that A2A does not have. */
export function methodOf(name: string): Method | undefined {
  return METHODS.get(name)
}

const isText = (value: unknown) => typeof value === 'string'
const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 0
/** What the parameters that the methods share must be (A2A, "Protocol Data Model"). The official handlers do not ask. */
const PARAMETERS: Readonly<Record<string, [what: string, holds: (value: unknown) => boolean]>> = {
  ...{ id: ['a text', isText], contextId: ['a text', isText], pageToken: ['a text', isText] },
  ...{ historyLength: ['a count', isCount], pageSize: ['a count', isCount] },
  includeArtifacts: ['true or false', (value) => typeof value === 'boolean'],
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

export const METHOD_NAMES: readonly string[] = [...METHODS.keys()]
