/** The methods of A2A's JSON-RPC binding, in the words of 1.0 and of 0.3. A method's name says whose words they are. */

export type Dialect = '1.0' | '0.3'

export type Method =
  | { kind: 'send'; dialect: Dialect; isStream: boolean }
  /** Answered by the official handlers. */
  | { kind: 'other'; dialect: Dialect }
  /** Notifications in A2A's own way, which we do not send. */
  | { kind: 'push' }

const other = (dialect: Dialect, ...names: string[]): [string, Method][] =>
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

export const METHOD_NAMES: readonly string[] = [...METHODS.keys()]
