/** The tasks of a demo agent that answered `submitted`: they complete by the clock and are polled with get_task_status. */
import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type Args, type Body, done, notFound, type Outcome, type TaskState } from './outcome.js'

const MAX_TASKS = 10_000

type Task = {
  type: 'activate_signal' | 'get_signals'
  startedAt: number
  doneAt: number
  result(): Record<string, unknown>
}

export type TaskBook = {
  /** Starts a task that is done at `doneAt` (ms since the epoch) and gives the `submitted` answer. */
  submit(type: Task['type'], doneAt: number, result: Task['result']): Body
  status(args: Args): Outcome
  /** From now on every unfinished task is said to be so. */
  unfinishedAre(state: TaskState): void
}

const iso = (time: number) => new Date(time).toISOString()

export function createTaskBook({ now }: { now: () => number }): TaskBook {
  // counted by size: `max` would take the memory of all at once
  const tasks = new LRUCache<string, Task>({ maxSize: MAX_TASKS, sizeCalculation: () => 1 })
  let state: TaskState = 'working'

  function submit(type: Task['type'], doneAt: number, result: Task['result']): Body {
    const task_id = `task_${randomUUID()}`
    tasks.set(task_id, { type, startedAt: now(), doneAt, result })
    return { status: 'submitted', task_id, message: `Accepted; poll get_task_status for ${task_id}.` }
  }

  function status(args: Args): Outcome {
    const task_id = String(args.task_id)
    const task = tasks.get(task_id)
    if (!task) return notFound('task_id')
    const finished = now() >= task.doneAt
    return done({
      task_id,
      task_type: task.type,
      protocol: 'signals',
      ...(finished ? {} : { status: state }),
      created_at: iso(task.startedAt),
      updated_at: iso(finished ? task.doneAt : now()),
      ...(finished ? { completed_at: iso(task.doneAt) } : {}),
      ...(finished && args.include_result === true ? { result: task.result() } : {}),
      message: finished ? 'The task is completed.' : `The task is ${state}.`,
    })
  }

  return {
    submit,
    status,
    unfinishedAre(said) {
      state = said
    },
  }
}
