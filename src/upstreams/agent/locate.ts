/** Where a transport's message carries the AdCP payload: an MCP tool result, an A2A task or message. */
import { boundedText, isRecord } from '../../adcp/json.js'
import { objectIn, type UnwrappedAnswer, unwrapped } from './answer.js'

const PENDING = /^(TASK_STATE_)?(SUBMITTED|WORKING)$/i
const FAILED = /^(TASK_STATE_)?(FAILED|REJECTED|CANCELED|CANCELLED|AUTH[-_]REQUIRED|INPUT[-_]REQUIRED)$/i

function texts(content: unknown): string[] {
  if (!Array.isArray(content)) return []
  return content.filter(isRecord).flatMap((part) => (typeof part.text === 'string' ? [part.text] : []))
}

/** docs/protocol.md#mcp: `isError`, then structuredContent, then the first text that is an object; or a bare result. */
export function locateMcp(message: unknown): UnwrappedAnswer | undefined {
  const result = isRecord(message) ? message.result : undefined
  if (!isRecord(result)) return undefined
  const failed = result.isError === true
  const written = texts(result.content)
  const text = boundedText(written[0])
  if (isRecord(result.structuredContent)) {
    return { payload: unwrapped(result.structuredContent), failed, ...(text && { text }) }
  }
  for (const each of written) {
    const object = objectIn(each)
    if (object) return { ...object, failed }
  }
  if (written.length > 0) return { failed, ...(text && { text }) }
  return result.content === undefined ? { payload: result, failed } : undefined
}

/** The task or the message in a result: 1.0 wraps it, 0.3 does not. */
function bodyOf(message: unknown): Record<string, unknown> | undefined {
  const result = isRecord(message) ? message.result : undefined
  if (!isRecord(result)) return undefined
  if (isRecord(result.task)) return result.task
  return isRecord(result.message) ? result.message : result
}

function statusOf(body: Record<string, unknown>): { state: string; message: unknown } {
  const status = isRecord(body.status) ? body.status : {}
  return { state: typeof status.state === 'string' ? status.state : '', message: status.message }
}

function partsIn(holder: unknown): Record<string, unknown>[] {
  return isRecord(holder) && Array.isArray(holder.parts) ? holder.parts.filter(isRecord) : []
}

function lastObject(texts: readonly string[]): Pick<UnwrappedAnswer, 'payload' | 'rows'> | undefined {
  for (const text of [...texts].reverse()) {
    const object = objectIn(text)
    if (object) return object
  }
  return undefined
}

/**
 * The last data part counts (docs/protocol.md#a2a): artifacts first, then the status message, then a bare message; without any data part, a
 * text that is an object.
 */
export function locateA2a(message: unknown): UnwrappedAnswer | undefined {
  const body = bodyOf(message)
  if (!body) return undefined
  const { state, message: spoken } = statusOf(body)
  const artifacts = Array.isArray(body.artifacts) ? body.artifacts : []
  const parts = [...partsIn(body), ...partsIn(spoken), ...artifacts.flatMap(partsIn)]
  const texts = parts.flatMap((part) => (typeof part.text === 'string' ? [part.text] : []))
  const data = parts.map((part) => part.data).findLast(isRecord)
  const object = data ? { payload: unwrapped(data) } : lastObject(texts)
  const text = boundedText(texts.find((each) => each !== ''))
  return { failed: FAILED.test(state), ...object, ...(text && { text }) }
}

/** The id of an A2A task that is still worked on. */
export function pendingTask(message: unknown): string | undefined {
  const body = bodyOf(message)
  return body && typeof body.id === 'string' && PENDING.test(statusOf(body).state) ? body.id : undefined
}
