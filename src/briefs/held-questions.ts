/**
 * Questions whose answer a test supplies: comply_test_controller forces them (comply_test_controller reference,
 * force_get_signals_arm and force_task_completion). Their tasks and notices are ordinary ones.
 */
import { adcpError } from '../adcp/answer.js'
import type { GetSignalsRequest } from '../adcp/signal-requests.js'
import { type PushConfig, type PushRules, readPushConfig } from '../events/webhook.js'
import type { Reader } from '../feed/query.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import type { Store } from '../store/store.js'
import type { DiscoverAnswer } from './discover.js'
import { noticeJob } from './notices.js'

const KIND = 'held_question' // no worker handles this kind
const FINISHING_MS = 30_000

/** What the notice needs. */
type HeldQuestion = { push?: PushConfig; contextId: string }

export type HeldQuestions = ReturnType<typeof createHeldQuestions>

type HeldQuestionsOptions = {
  store: Pick<Store, 'jobs' | 'write'>
  pushRules: PushRules
  /** Unguessable. */
  newId(): string
}

/** Holds such questions in the storage, so that every process can finish them. */
export function createHeldQuestions({ store, pushRules, newId }: HeldQuestionsOptions) {
  const owner = newId()

  /** Answers the question with `submitted` and this task id. `account`: its natural key. */
  async function hold(
    task: { id: string; account: string; message: string },
    input: GetSignalsRequest,
    { caller }: Reader,
    contextId: string,
  ): Promise<DiscoverAnswer> {
    const { push_notification_config: asked, ...request } = input
    const push = asked === undefined ? undefined : await readPushConfig(asked, pushRules)
    if (push && 'refused' in push) return { kind: 'refused', error: push.refused }
    const { id, account, message } = task
    const data: HeldQuestion = { contextId, ...(push && { push }) }
    try {
      await store.write(async ({ tasks, jobs }) => {
        const ours = { id, caller, account, type: 'get_signals', status: 'submitted' } as const
        await tasks.create({ ...ours, request, webhook: push !== undefined })
        await jobs.add({ id: `${id}_${newId()}`, kind: KIND, lane: caller, caller, key: id, data })
      })
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error
      const suggestion = 'Repeat the request.'
      const refused = adcpError('SERVICE_UNAVAILABLE', 'The task could not be kept.', { suggestion })
      return { kind: 'refused', error: refused }
    }
    return { kind: 'answer', status: 'submitted', message, fields: { task_id: id } }
  }

  /**
   * Ends a task of the caller's with this result, and sends the notice if one was requested. False when it had ended.
   */
  async function finish(caller: string, id: string, result: object): Promise<boolean> {
    const jobs = await store.jobs.ofKey(caller, id, 0)
    const open = jobs.find(({ kind, state }) => kind === KIND && state === 'open')
    const held = open && (await store.jobs.claim(open.id, { owner, ms: FINISHING_MS }))
    return await store.write(async ({ tasks, jobs: all }) => {
      if (!(await tasks.progress(id, { status: 'completed', result }))) return false
      if (!held) return true
      const { push, contextId } = held.data as HeldQuestion
      if (!(await all.end(held, 'completed')) || !push) return true
      const notice = noticeJob(caller, { taskId: id, contextId, push })
      await all.add({ ...notice, id: `${notice.id}_${newId()}` }) // a test may use the id of a task again
      return true
    })
  }

  return { hold, finish }
}
