/** The tasks of an activation, asked without a transport. */
import type { Activation } from '../../../src/activation/activation.js'
import type { Answered, Refused } from '../../../src/adcp/answer.js'
import type { Caller } from '../../../src/adcp/caller.js'
import { activateSignal } from '../../../src/tasks/activate-signal.js'
import { getTaskStatus } from '../../../src/tasks/get-task-status.js'
import { listAccounts } from '../../../src/tasks/list-accounts.js'
import { listTasks } from '../../../src/tasks/list-tasks.js'
import { reportUsage } from '../../../src/tasks/report-usage.js'
import { syncAccounts } from '../../../src/tasks/sync-accounts.js'
import type { CallContext, Task } from '../../../src/tasks/task.js'
import { paused } from './paused.js'

/** What cursors of lists are signed with. */
export const SECRET = 'secret of the cursors'

type Asked<T> = T extends { handle(input: infer I, context: CallContext): unknown } ? I : never

/** A task as a function of its request, its caller and the moment until which it may take, in ms since the epoch. */
export function asked<T extends Pick<Task<never>, 'handle'>>(task: T) {
  return async (
    input: Asked<T>,
    caller: Caller,
    deadline = Date.now() + 60_000,
  ): Promise<Answered | Refused> => {
    const answer = await task.handle(input as never, { caller, deadline, release: '3.1' } as CallContext)
    if (answer.kind === 'failed') throw new Error(answer.message)
    return answer
  }
}

/** An activation with the six tasks that stand on it. */
export function withTasks(activation: Activation) {
  return {
    ...activation,
    activate: asked(activateSignal(activation)),
    reportUsage: asked(reportUsage(activation)),
    taskStatus: asked(getTaskStatus(activation)),
    listTasks: asked(listTasks({ ...activation, secret: SECRET })),
    listAccounts: asked(listAccounts({ ...activation, secret: SECRET })),
    syncAccounts: asked(syncAccounts({ ...activation, subscribing: paused(activation.store) })),
  }
}

export type Tasked = ReturnType<typeof withTasks>
