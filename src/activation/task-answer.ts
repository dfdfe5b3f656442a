/**
 * What an upstream's answer to `get_task_status` says of the task that it was asked about, an activation or a question. A task ends
 * only by what is said of it itself: an error may be about the asking, and an answer that names another task is about that one,
 * whose result may be another caller's. Pure.
 */
import type { TaskProgress, TaskStatus } from '../store/records/tasks.js'
import type { AgentOutcome, Payload } from '../upstreams/agent/agent.js'
import {
  activationJudge,
  ENDED,
  GOES_ON,
  plainState,
  readStatus,
  readTold,
  showsDone,
  taskIdsIn,
  understand,
  type Wish,
} from './upstream-answer.js'

/** Error codes about get_task_status itself, which say nothing about the task. */
const OF_THE_QUESTION: ReadonlySet<string> = new Set([
  'TOOL_ERROR',
  'UNKNOWN',
  'INVALID_REQUEST',
  'UNSUPPORTED_FEATURE',
])

/** Agents have several words for a task that they do not know. */
const NOT_KNOWN = /^((reference|task|resource)_)?not_found$/i

type TaskError = NonNullable<TaskProgress['error']>

export type TaskWord =
  | { kind: 'goes_on'; status: TaskStatus }
  | { kind: 'completed'; payload: Payload }
  /** Without a result. */
  | { kind: 'ended'; status: TaskStatus; error: TaskError }
  /** The upstream does not know it. */
  | { kind: 'forgotten' }
  /** It does not say how the task stands; `error`: how the task ends if nothing else is heard. */
  | { kind: 'doubtful'; error: TaskError }
  /** The upstream does not take the question. */
  | { kind: 'not_taken' }

type AskedTask = {
  /** The id of the upstream, for the words of an error. */
  upstream: string
  taskId: string
  /** Of an activation. */
  wish?: Wish
}

/** That an upstream tells nothing of a task, so what came of it is not known. `field`: it is no refusal of a signal. */
export const untold = (message: string): TaskError => ({
  ...{ code: 'REFERENCE_NOT_FOUND', field: 'task_id' },
  message: `${message}; what came of it is unknown.`,
})

const OF_ANOTHER: TaskWord = {
  kind: 'doubtful',
  error: untold('The upstream answered about another task whenever it was asked for this one'),
}

function ended(upstream: string, status: string, code = ''): TaskWord {
  const refused = understand(
    { kind: 'error', error: { code, message: '' } },
    { upstream, mayHaveActed: false },
  )
  const error: TaskError =
    refused.kind === 'refused'
      ? refused.error
      : {
          code: 'SERVICE_UNAVAILABLE',
          message: 'The upstream could not carry it out.',
          details: { upstream },
        }
  return { kind: 'ended', status: status as TaskStatus, error }
}

/**
 * What an error says of the task. It ends the task when it says that the task has ended, or is not known; else it may be about
 * this question alone, or about us.
 */
function readError(
  outcome: Extract<AgentOutcome, { kind: 'error' }>,
  asked: AskedTask,
): TaskWord | undefined {
  const { error, payload = {}, isOwnTask } = outcome
  const { code, field, rpcCode } = error
  const { upstream, wish } = asked
  const { task_id, task_type } = payload
  const namesTask = typeof task_id === 'string' || typeof task_type === 'string'
  const status = namesTask && !isOwnTask ? plainState(payload.status) : undefined
  if (GOES_ON.has(status)) return { kind: 'goes_on', status: status as TaskStatus }
  if (status !== undefined && wish && showsDone(payload, wish)) return { kind: 'completed', payload }
  const isEnded = status !== undefined && ENDED.has(status)
  if (NOT_KNOWN.test(code) && (!isEnded || field === 'task_id')) return { kind: 'forgotten' }
  if (isEnded) return ended(upstream, status, code)
  if (rpcCode !== undefined || OF_THE_QUESTION.has(code)) return { kind: 'not_taken' }
  const understood = understand(outcome, { upstream, mayHaveActed: true })
  const isOfTask = understood.kind === 'refused' && understood.error.code !== 'SERVICE_UNAVAILABLE'
  return isOfTask ? { kind: 'doubtful', error: understood.error } : undefined
}

/** Undefined when it says nothing of the task. */
export function readTaskAnswer(outcome: AgentOutcome, asked: AskedTask): TaskWord | undefined {
  if (outcome.kind === 'failed') return undefined
  const { payload = {}, isOwnTask } = outcome
  const { upstream, taskId, wish } = asked
  const named = taskIdsIn(payload).filter((id) => !(isOwnTask && id === payload.task_id))
  if (named.length > 0 && !named.includes(taskId)) return OF_ANOTHER
  if (outcome.kind === 'error') return readError(outcome, asked)
  const showsSome = wish ? readTold(payload, []).deployments.length > 0 : outcome.rows.elements > 0
  const status = readStatus(payload, wish) ?? (showsSome ? 'completed' : undefined)
  if (GOES_ON.has(status)) return { kind: 'goes_on', status: status as TaskStatus }
  if (status !== undefined && ENDED.has(status)) return ended(upstream, status)
  if (status !== 'completed') return undefined
  const failure = wish && activationJudge(wish).failureIn(payload)
  return failure ? ended(upstream, 'failed', failure.code) : { kind: 'completed', payload }
}
