/**
 * Questions that outlive their request, as jobs: stored before the caller is answered, completed when the upstreams have
 * answered; then the caller is told (`notice.ts`). After a crash they continue: upstreams that began a task are asked about it,
 * the others are asked again, and a task that has ended never changes.
 */
import { naturalKey } from '../activation/accounts.js'
import { readTaskAnswer, type TaskWord } from '../activation/task-answer.js'
import { type AdcpError, adcpError } from '../adcp/answer.js'
import type { AccountReference } from '../adcp/caller.js'
import type { GetSignalsRequest } from '../adcp/signal-requests.js'
import { type PushRules, readPushConfig } from '../events/webhook.js'
import type { Reader } from '../feed/query.js'
import { pause } from '../net/clock.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import type { Held } from '../store/jobs.js'
import { canonical } from '../store/records/idempotency.js'
import type { TaskProgress } from '../store/records/tasks.js'
import type { Store } from '../store/store.js'
import { createWorker, type Worker } from '../store/worker.js'
import type { Asked, CallAsked } from '../upstreams/asker.js'
import { answerSlice, type FoundSlice } from '../upstreams/rows/found-slice.js'
import { type Brief, type Inquiry, type Ranked, taskName } from './brief.js'
import type { DiscoverAnswer, Later } from './discover.js'
import { createNotices, endQuestion, type Noticed, type NoticesOptions } from './notice.js'

/** After this time a question is answered with what has arrived. */
const LONGEST_MS = 10 * 60_000
/** How often to store the tasks that upstreams have begun meanwhile. */
const NOTE_EVERY_MS = 2_000
/** Open tasks per caller. */
const MOST_OF_A_CALLER = 500
const PLACES = { inAll: 1_000, aLane: MOST_OF_A_CALLER }
/** Between two questions about an upstream's task. */
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 15_000
const CALL_MS = 30_000
/** An upstream that restarts refuses questions about its task for a while, but the caller waits for the rows of the others. */
const DOUBT_MS = 2 * 60_000

const UNANSWERED = adcpError('SERVICE_UNAVAILABLE', 'The question could not be answered.', {
  suggestion: 'Ask again; without push_notification_config the answer comes at once.',
})
/** After these words nothing more comes of an upstream's task. */
const ENDS: ReadonlySet<TaskWord['kind']> = new Set(['ended', 'forgotten'])

/** What must survive a restart. */
type Question = Noticed & {
  input: GetSignalsRequest
  reader: Reader
  /** The upstreams' own tasks, by `taskName`. */
  upstreamTasks: Readonly<Record<string, string>>
}

type LaterOptions = Omit<NoticesOptions, 'store'> & {
  brief: Brief
  /** Shapes a ranked answer as a response. */
  firstPage(ranked: Ranked, input: GetSignalsRequest, reader: Reader): Promise<DiscoverAnswer>
  store: Pick<Store, 'tasks' | 'jobs' | 'accounts' | 'write'>
  call: CallAsked
  pushRules: PushRules
  /** Unguessable. */
  newId(): string
}

type Answer = Extract<DiscoverAnswer, { kind: 'answer' }>

function response({ message, fields, rows, warnings }: Answer, contextId: string): Record<string, unknown> {
  const signals = JSON.parse(`[${Buffer.concat(rows?.parts ?? []).toString()}]`) as unknown[]
  return {
    status: 'completed',
    message,
    context_id: contextId,
    signals,
    ...fields,
    ...(warnings && warnings.length > 0 && { errors: warnings }),
  }
}

/** `resume` begins to work on stored questions; `close` leaves them to the next start. */
export function createLater(options: LaterOptions): Later & {
  /** By kind of job: ends one without doing its work, for an operator. */
  givingUp: Readonly<Record<'question' | 'notice', (held: Held) => Promise<void>>>
  resume(): Promise<void>
  close(): Promise<void>
} {
  const { brief, firstPage, store, call, webhook, pushRules, clock, grantsOf, newId, onTrouble } = options
  const stop = new AbortController()
  const notices = createNotices({ store, webhook, clock, grantsOf, onTrouble })
  const open = new Map<string, number>() // how many questions of each caller this process works on
  const worker: Worker = createWorker({
    ...{ jobs: store.jobs, clock, owner: newId(), places: PLACES },
    kinds: { question: { run: complete }, notice: notices },
    onProblem: onTrouble,
  })

  /** Tasks that upstreams have begun for it, by `taskName`. */
  function begun(inquiry: Inquiry): Record<string, string> {
    const answers = inquiry.answers()
    const tasks = inquiry.asked.flatMap((one) => {
      const answer = answers.get(one.agentUrl)
      return answer?.kind === 'submitted' ? [[taskName(one), answer.taskId]] : []
    })
    return Object.fromEntries(tasks) as Record<string, string>
  }

  /** Waits for the upstreams' answers, and stores the tasks that they report. */
  async function settled(held: Held, inquiry: Inquiry, until: number): Promise<void> {
    let noted = (held.data as Question).upstreamTasks
    const isPending = () => [...inquiry.answers().values()].some(({ kind }) => kind === 'pending')
    do {
      await inquiry.settled(Math.min(until, clock.now() + NOTE_EVERY_MS))
      const tasks = begun(inquiry)
      if (Object.keys(tasks).length === Object.keys(noted).length) continue
      noted = tasks
      await store.jobs.note(held, { ...(held.data as Question), upstreamTasks: tasks })
    } while (isPending() && clock.now() < until && !stop.signal.aborted)
  }

  /**
   * The rows of an upstream's task once it is done, asked for with growing pauses; undefined when it failed, when its agent has left
   * the roster, when nothing but doubt is heard of it for a while, or when `until` (ms since the epoch) comes first.
   */
  async function rowsOfTask(asked: Asked, taskId: string, until: number): Promise<FoundSlice | undefined> {
    const { signal } = stop
    const args = { task_id: taskId, include_result: true }
    let doubtsSince: number | undefined
    for (let between = FIRST_PAUSE_MS; clock.now() < until && !signal.aborted; ) {
      const patience = { deadline: Math.min(until, clock.now() + CALL_MS), signal }
      const outcome = await call(asked, 'get_task_status', args, patience)
      if (outcome.kind === 'failed' && outcome.reason === 'unknown_upstream') return undefined
      const word = readTaskAnswer(outcome, { upstream: asked.agentUrl, taskId })
      if (outcome.kind === 'answer' && word?.kind === 'completed') {
        return answerSlice(asked, outcome.rows, clock.now())
      }
      if (word && ENDS.has(word.kind)) return undefined
      if (word) doubtsSince = word.kind === 'goes_on' ? undefined : (doubtsSince ?? clock.now())
      if (doubtsSince !== undefined && clock.now() - doubtsSince > DOUBT_MS) return undefined
      await pause(clock, Math.min(between, until - clock.now()), signal)
      between = Math.min(LONGEST_PAUSE_MS, between * 2)
    }
    return undefined
  }

  /** Rows of the upstreams that answered `submitted`, each by its agent's url, waited for until `until` at the latest. */
  async function lateRows(inquiry: Inquiry, until: number): Promise<Map<string, FoundSlice>> {
    const tasks = begun(inquiry)
    const found = inquiry.asked.map(async (asked): Promise<[string, FoundSlice][]> => {
      const taskId = tasks[taskName(asked)]
      const slice = taskId === undefined ? undefined : await rowsOfTask(asked, taskId, until)
      return slice ? [[asked.agentUrl, slice]] : []
    })
    return new Map((await Promise.all(found)).flat())
  }

  /** The result of the task, or its error; undefined when this process is closing. */
  async function endOf(held: Held): Promise<TaskProgress | undefined> {
    const { input, reader: asker, contextId, upstreamTasks: underWay } = held.data as Question
    const reader: Reader = { ...asker, grants: grantsOf(asker.caller) ?? [] }
    const until = held.createdAt + LONGEST_MS
    const inquiry = brief.ask(input, reader, until, stop.signal, underWay)
    await settled(held, inquiry, until)
    const late = await lateRows(inquiry, until)
    if (stop.signal.aborted) return undefined
    const ranked = await inquiry.rank(late)
    const answer = ranked && (await firstPage(ranked, input, reader))
    return answer?.kind === 'answer'
      ? { status: 'completed', result: response(answer, contextId) }
      : { status: 'failed', error: answer?.error ?? UNANSWERED }
  }

  async function complete(held: Held): Promise<void> {
    const { id } = held
    const end = await endOf(held).catch((error: Error): TaskProgress => {
      if (error instanceof StorageUnavailable) throw error
      onTrouble(`task ${id} failed: ${error.message}`)
      return { status: 'failed', error: UNANSWERED }
    })
    if (end) await finish(held, end)
    else await store.jobs.release(held, 0) // the next start continues it
  }

  async function finish(held: Held, end: TaskProgress): Promise<void> {
    await store.write(async ({ jobs, tasks }) => {
      if (await endQuestion(jobs, held, held.id, end.status)) await tasks.progress(held.id, end)
    })
    worker.wake()
  }

  async function refusal(
    { push_notification_config: asked }: GetSignalsRequest,
    reader: Reader,
  ): Promise<AdcpError | undefined> {
    if (asked === undefined) return undefined
    if (reader.visibility !== 'full') {
      return adcpError('AUTH_REQUIRED', 'Notifications are sent to authenticated callers only.', {
        field: 'push_notification_config',
        suggestion: 'Send Authorization: Bearer with a key of this agent, or leave the configuration out.',
      })
    }
    const push = await readPushConfig(asked, pushRules)
    return push && 'refused' in push ? push.refused : undefined
  }

  /** The key under which tasks of an account are stored and found, whichever name of it the caller uses (`findOwnAccount`). */
  async function accountKey(caller: string, account: AccountReference): Promise<string> {
    if (!('account_id' in account)) return naturalKey(account)
    return (await store.accounts.get(caller, account.account_id))?.naturalKey ?? canonical(account)
  }

  /** Works on a question that was just stored, within its caller's share. */
  function work(held: Held): void {
    const { id, caller } = held
    open.set(caller, (open.get(caller) ?? 0) + 1)
    worker
      .during(held, () => complete(held))
      .catch((error: Error) => onTrouble(`task ${id} goes on later: ${error.message}`))
      .finally(() => {
        const left = (open.get(caller) ?? 1) - 1
        if (left > 0) open.set(caller, left)
        else open.delete(caller)
      })
  }

  async function submit(inquiry: Inquiry, input: GetSignalsRequest, reader: Reader, contextId: string) {
    const { caller } = reader
    if ((open.get(caller) ?? 0) >= MOST_OF_A_CALLER) {
      return adcpError('RATE_LIMITED', 'Too many of your questions are being worked on.', {
        retry_after: 30,
        suggestion: 'Wait until one of them ends: list_tasks shows them.',
      })
    }
    const { push_notification_config: asked, ...question } = input
    const push = await readPushConfig(asked, pushRules)
    if (push && 'refused' in push) return push.refused
    const id = `task_${newId()}`
    const data: Question = {
      ...{ input: question, reader, contextId, upstreamTasks: begun(inquiry) },
      ...(push && { push }),
    }
    const unreserve = worker.reserve([id])
    try {
      const account = input.account && (await accountKey(caller, input.account))
      const added = await store.write(async ({ tasks, jobs }) => {
        await tasks.create({
          ...{ id, caller, type: 'get_signals', status: 'submitted', request: question },
          webhook: push !== undefined,
          ...(account !== undefined && { account }),
        })
        return await jobs.add({ id, kind: 'question', lane: caller, caller, data }, worker.hold)
      })
      if (added.isHeld) work(added.job)
      worker.start()
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error
      return adcpError('SERVICE_UNAVAILABLE', 'The task could not be kept.', {
        retry_after: 5,
        suggestion: 'Repeat the request, or ask without push_notification_config for an answer at once.',
      })
    } finally {
      unreserve()
    }
    return id
  }

  return {
    refusal,
    submit,
    givingUp: {
      question: (held) => finish(held, { status: 'failed', error: UNANSWERED }),
      notice: notices.giveUp,
    },
    async resume() {
      worker.start()
    },
    async close() {
      stop.abort()
      await worker.close()
    },
  }
}
