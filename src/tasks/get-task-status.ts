/** get_task_status: how a request that was answered `submitted` goes on (specification, "get_task_status"). */
import type { Activation } from '../activation/activation.js'
import { GetTaskStatusRequest } from '../adcp/requests/task-requests.js'
import { GetTaskStatusResponse } from '../adcp/responses.js'
import { isSince32 } from '../adcp/version.js'
import type { AnswerStatus, Task } from './task.js'

export function getTaskStatus({
  taskStatus,
}: Pick<Activation, 'taskStatus'>): Task<typeof GetTaskStatusRequest> {
  return {
    name: 'get_task_status',
    answersTo: ['tasks/get', 'tasks_get'], // names of two generations of clients
    title: 'Ask how a task goes on',
    description:
      'Gives the status of a task whose task_id an earlier answer named. Send include_result true to get the result ' +
      'once the status is completed. Ask every few seconds, not faster.',
    request: GetTaskStatusRequest,
    response: GetTaskStatusResponse,
    mutating: false,
    async handle(input, { caller, deadline, release }) {
      const answer = await taskStatus(input, caller, deadline)
      if (answer.kind === 'refused') return answer
      // The status is the task's, also when the task failed: the question itself was answered.
      const { error, result } = answer.fields
      const isTold =
        result !== undefined || error === undefined || !input.include_result || !isSince32(release)
      const failure = isTold ? {} : { result: { status: 'failed', adcp_error: error, errors: [error] } }
      return { ...answer, status: answer.status as AnswerStatus, fields: { ...answer.fields, ...failure } }
    },
  }
}
