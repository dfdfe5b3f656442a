/** An answer as an A2A response, in the words of 1.0 or of 0.3: bytes around the payload that MCP sends too. */
import type { Chunk } from '../answer/chunks.js'
import type { AnswerPayload } from '../answer/payload.js'
import { type AnsweredTask, artifactMetadata, taskState } from './a2a-content.js'
import type { A2aRelease } from './a2a-message.js'
import { PROFILE } from './a2a-profile.js'

/** What 0.3 says of each object, and 1.0 leaves out. */
const KINDS = { task: '"kind":"task",', data: '"kind":"data",', text: '"kind":"text",' }

/** A response without what each task has of its own: its id and its time. */
type Shell = { result: string; conversation: string; artifact: string; before: string; after: string }

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
    before: `-result","name":"result","parts":[{${kinds.data}"data":${payload.head}`,
    after: `${payload.tail}},{${kinds.text}"text":${text}}]${open}}]}${isCurrent ? '}}' : '}'}`,
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
  const shell = own.get(name) ?? shellOf(answered, dialect)
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
  const { rows } = answered.payload
  const { result, conversation, artifact, before, after } = keptShell(answered, dialect)
  const opening = `{"jsonrpc":"2.0","id":${id}${result}${taskId}${conversation}${timestamp}${artifact}${taskId}`
  return [opening, before, ...rows, after]
}

/** Milliseconds since the epoch as ISO 8601. Many calls are answered in one millisecond. */
export function createTimestamps(): (at: number) => string {
  let [last, text] = [Number.NaN, '']
  return (at) => {
    if (at !== last) [last, text] = [at, new Date(at).toISOString()]
    return text
  }
}
