/**
 * What a client sent in an A2A message: which skill, with what input (docs/protocol.md#a2a). Both versions of the
 * protocol and both names of the input are read; the last data part counts.
 */
import { isRecord } from '../../adcp/json.js'
import type { RpcRequest } from '../answer/json-rpc.js'

export type SkillCall = {
  /** Empty when no data part names one: the answer to that says what to send. */
  skill: string
  input: unknown
  /** The JSON text of `input.context`. */
  rawContext: () => string | undefined
  contextId?: string
}

export type MessageRead =
  | { kind: 'skill'; call: SkillCall }
  /** It continues a task; all tasks of ours are finished. */
  | { kind: 'continues' }
  | { kind: 'malformed'; reason: string }

type SkillData = Record<string, unknown> & { skill: string }

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** The last data part that names a skill, by its place in `parts`. */
function skillPart(parts: readonly unknown[]): { at: number; data: SkillData } | undefined {
  for (let at = parts.length - 1; at >= 0; at--) {
    const part = parts[at]
    const data = isRecord(part) ? part.data : undefined
    if (isRecord(data) && isText(data.skill)) return { at, data: data as SkillData }
  }
  return undefined
}

export function readSkill({ params, raw }: RpcRequest): MessageRead {
  const message = isRecord(params) ? params.message : undefined
  if (!isRecord(message)) return { kind: 'malformed', reason: 'params.message must be an object' }
  const { messageId, parts, contextId, taskId } = message
  if (!isText(messageId)) return { kind: 'malformed', reason: 'params.message.messageId must be a string' }
  if (!Array.isArray(parts) || parts.length === 0) {
    return { kind: 'malformed', reason: 'params.message.parts must hold at least one part' }
  }
  if (isText(taskId)) return { kind: 'continues' }
  const conversation = isText(contextId) ? { contextId } : {}
  const found = skillPart(parts)
  if (!found)
    return { kind: 'skill', call: { skill: '', input: {}, rawContext: () => undefined, ...conversation } }
  const { at, data } = found
  const name = data.input === undefined ? 'parameters' : 'input'
  const path = ['params', 'message', 'parts', at, 'data', name, 'context']
  const call = { skill: data.skill, input: data[name], rawContext: () => raw(path), ...conversation }
  return { kind: 'skill', call }
}
