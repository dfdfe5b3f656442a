/**
 * From the bytes of a transport's messages to what they say: the JSON-RPC response to one request, and the AdCP answer
 * in it with its rows read. Pure, so that it can be done by any thread.
 */
import { boundedText, isRecord } from '../../adcp/json.js'
import type { RowBounds } from '../rows/read-rows.js'
import { type Skimmed, skim } from '../rows/skim.js'
import type { AgentOutcome } from './agent.js'
import { readAnswer } from './answer.js'
import { locateA2a, locateMcp, pendingTask } from './locate.js'

/** `value`: the result as it came, for handshakes and lists. The others: the AdCP answer that the transport wrapped. */
export type AnswerForm = 'value' | 'mcp' | 'a2a'

export type ReadingJob = {
  /** What may hold the response, in the order in which it came. */
  messages: readonly Uint8Array[]
  /** Of the request. */
  id: number
  as: AnswerForm
  bounds: RowBounds
}

export type ReadAnswer =
  | { kind: 'value'; value: unknown }
  /** `pending`: the A2A task that is still worked on. */
  | { kind: 'answer'; outcome: AgentOutcome; pending?: string }
  | { kind: 'rpc_error'; code: number; message: string }
  /** More than may be read. */
  | { kind: 'too_large'; message: string }
  /** No message is the response. */
  | { kind: 'none' }

function isResponse(value: unknown, id: number): value is Record<string, unknown> {
  if (!isRecord(value) || value.method !== undefined) return false
  // Some agents write the id as a text; an error before they read it carries none.
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
    return false // not JSON, or more than may be read: nothing that is waited for
  }
}

export function readMessages(job: ReadingJob): ReadAnswer {
  for (const message of job.messages) {
    try {
      const response = responseIn(message, job.id)
      if (response) return understand(response, job)
    } catch (error) {
      if (error instanceof RangeError) return { kind: 'too_large', message: error.message }
      if (!(error instanceof SyntaxError)) throw error
      // not JSON: an ordinary way for an upstream to be wrong
    }
  }
  return { kind: 'none' }
}
