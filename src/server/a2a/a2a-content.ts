/** What the task of an answered call shows (docs/protocol.md#a2a), also as bytes for other processes. */
import { textOf, wrapped } from '../answer/chunks.js'
import type { AnswerPayload } from '../answer/payload.js'

/** A call that was answered. */
export type AnsweredTask = {
  payload: AnswerPayload
  /** The protocol's own profile was asked for (a2a-profile.ts). */
  profiled: boolean
}

type About = {
  contextId: string
  isError: boolean
  /** Of the text part. */
  text: string
  metadata?: { adcp_task_id: string }
}

export type TaskContent = About & {
  /** JSON text of the data part. */
  data: string
}

/** The JSON text of the task's state, in the words of 1.0 or of 0.3. */
export function taskState({ isError }: { isError: boolean }, dialect: '1.0' | '0.3'): string {
  // An AdCP task that was submitted is an A2A task that is completed (docs/protocol.md#a2a).
  if (dialect === '1.0') return isError ? 'TASK_STATE_FAILED' : 'TASK_STATE_COMPLETED'
  return isError ? 'failed' : 'completed'
}

/**
 * What clients of earlier releases know an open task of ours by. In the profile the handle stands once, in the data
 * (AdCP A2A Profile Extension, "Submitted AdCP work").
 */
export function artifactMetadata({ payload, profiled }: AnsweredTask): { adcp_task_id: string } | undefined {
  return payload.taskId === undefined || profiled ? undefined : { adcp_task_id: payload.taskId }
}

export function contentOf(answered: AnsweredTask): TaskContent {
  const { payload } = answered
  const { contextId, isError, message, words } = payload
  const metadata = artifactMetadata(answered)
  return {
    ...{ contextId, isError, text: isError ? message : words.text() },
    ...(metadata && { metadata }),
    data: textOf(wrapped('', payload, '')),
  }
}

export function contentBytes({ data, ...about }: TaskContent): Uint8Array {
  return Buffer.from(`${JSON.stringify(about)}\n${data}`) // JSON has no line break of its own
}

export function contentFrom(bytes: Uint8Array): TaskContent {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()
  const end = text.indexOf('\n')
  return { ...(JSON.parse(text.slice(0, end)) as About), data: text.slice(end + 1) }
}
