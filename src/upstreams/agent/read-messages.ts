/**
 * From the bytes of a transport's messages to their content: the JSON-RPC response to one request, and the AdCP answer
 * in it with its rows read. Pure, so any thread can do it.
 */
import { boundedText, isRecord } from '../../adcp/json.js'
import type { RowBounds } from '../rows/read-rows.js'
import { type Skimmed, skim } from '../rows/skim.js'
import type { AgentOutcome } from './agent.js'
import { locateA2a, locateMcp, pendingTask, readAnswer } from './agent-answer.js'

/**
 * `value`: the result unchanged, for handshakes and lists. The others: the AdCP answer inside the transport's wrapping.
 */
export type AnswerForm = 'value' | 'mcp' | 'a2a'

export type ReadingJob = {
  /** The messages that may hold the response, in the order of arrival. */
  messages: readonly Uint8Array[]
  /** The id of the request. */
  id: number
  as: AnswerForm
  bounds: RowBounds
}

export type ReadAnswer =
  | { kind: 'value'; value: unknown }
  /** `pending`: the A2A task that is not finished yet. */
  | { kind: 'answer'; outcome: AgentOutcome; pending?: string }
  | { kind: 'rpc_error'; code: number; message: string }
  /** It exceeds a bound. */
  | { kind: 'too_large'; message: string }
  /** No message is the response. */
  | { kind: 'none' }

function isResponse(value: unknown, id: number): value is Record<string, unknown> {
  if (!isRecord(value) || value.method !== undefined) return false
  // Some agents write the id as a text; an error that occurs before they read it has none.
  return String(value.id) === String(id) || (value.id === null && value.error !== undefined)
}

/** The response to request `id`, alone or in a batch; undefined when the message is something else. */
function responseIn(message: Uint8Array, id: number): Skimmed | undefined {
  const skimmed = skim(message)
  if (isResponse(skimmed.value, id)) return skimmed
  const batch = Array.isArray(skimmed.value) ? skimmed.whole() : undefined
  const response = Array.isArray(batch) ? batch.find((each) => isResponse(each, id)) : undefined
  return response && { value: response, rows: [], whole: () => response }
}

function understand(skimmed: Skimmed, { as, bounds }: ReadingJob): ReadAnswer {
  const message = skimmed.value as Record<string, unknown>
  if (isRecord(message.error)) {
    const { code, message: text } = message.error
    return { kind: 'rpc_error', code: Number(code), message: boundedText(text) ?? 'no message' }
  }
  if (as === 'value') return { kind: 'value', value: message.result }
  const outcome = readAnswer(skimmed, as === 'mcp' ? locateMcp : locateA2a, bounds)
  const pending = as === 'a2a' ? pendingTask(message) : undefined
  return { kind: 'answer', outcome, ...(pending !== undefined && { pending }) }
}

/** Whether the message is the response to request `id`, alone or in a batch. */
export function holdsResponse(message: Uint8Array, id: number): boolean {
  try {
    return responseIn(message, id) !== undefined
  } catch {
    return false // not JSON, or beyond a bound: it cannot be the awaited response
  }
}

/** The answer in the first message that is the response. Never throws for what an agent sent. */
export function readMessages(job: ReadingJob): ReadAnswer {
  for (const message of job.messages) {
    try {
      const response = responseIn(message, job.id)
      if (response) return understand(response, job)
    } catch (error) {
      if (error instanceof RangeError) return { kind: 'too_large', message: error.message }
      if (!(error instanceof SyntaxError)) throw error
      // not JSON: upstreams send that sometimes
    }
  }
  return { kind: 'none' }
}
