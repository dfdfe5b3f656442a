/**
 * The protocol's own profile of A2A 1.0 (AdCP A2A Profile Extension v3): a request that activates it sends one data part
 * with `skill` and `input`, and nothing that could be read in its place. The card does not require it, since clients of
 * earlier releases do not know it (docs/protocol.md#a2a).
 */
import { isRecord } from '../../adcp/json.js'
import type { Exchange } from '../answer/chunks.js'
import type { A2aRelease } from './a2a-message.js'

export const PROFILE = 'https://adcontextprotocol.org/extensions/adcp/v3'

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
