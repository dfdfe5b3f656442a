/** list_tasks: a caller's own tasks, for reconciliation (schema protocol/list-tasks-request). */
import type { Activation } from '../activation/activation.js'
import { ListTasksRequest } from '../adcp/requests/task-requests.js'
import { ListTasksResponse } from '../adcp/responses.js'
import type { Task } from './task.js'

export function listTasks({ listTasks: list }: Pick<Activation, 'listTasks'>): Task<typeof ListTasksRequest> {
  return {
    name: 'list_tasks',
    title: 'List your tasks',
    description:
      'Lists your own tasks, newest first: filter by status, type and time, and page with pagination.',
    request: ListTasksRequest,
    response: ListTasksResponse,
    mutating: false,
    handle: (input, { caller }) => list(input, caller),
  }
}
