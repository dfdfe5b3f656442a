/**
 * Questions that outlive their request: durable before the caller hears of them, completed when the upstreams have
 * spoken, notified until the notice is taken (specification, "Events"). After a crash they go on from their record:
 * asking again is reading again, and the first end of a task stands.
 */
import { naturalKey } from '../activation/principal.js'
import { canonical } from '../activation/request-identity.js'
import type { AccountReference } from '../adcp/account.js'
import { type AdcpError, adcpError } from '../adcp/error.js'
import type { GetSignalsRequest } from '../adcp/requests/get-signals.js'
import { type PushRules, readPushConfig } from '../events/push-config.js'
import type { Webhook } from '../events/webhook.js'
import type { Reader } from '../feed/query.js'
import type { Clock } from '../net/clock.js'
import { pause } from '../net/pause.js'
import type { Store } from '../store/store.js'
import { isFinal, type StoredTask, type TaskProgress } from '../store/tasks.js'
import { StorageUnavailable } from '../store/unavailable.js'
import type { UpstreamAnswer } from '../upstreams/fanout.js'
import type { Slice } from '../upstreams/rows/slice.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import type { Brief, Inquiry, Ranked } from './brief.js'
import type { DiscoverAnswer, Later } from './discover.js'
import { createNotices } from './notices.js'
import { createTaskRecords, type TaskRecord } from './task-record.js'
import { createUpstreamTasks } from './upstream-tasks.js'

/** A question is answered with what there is after this, ms. */
const LONGEST_MS = 10 * 60_000
const HEARTBEAT_MS = 10_000
/** Nobody worked on a task for this long: its worker is gone. */
const LEASE_MS = 30_000
/** Tasks of one caller in hand at once, notices that nobody takes included. */
const MOST_OF_A_CALLER = 500

export type LaterOptions = {
  brief: Brief
  /** Shapes a ranked answer as a response. */
  firstPage(ranked: Ranked, input: GetSignalsRequest, reader: Reader): DiscoverAnswer
  store: Pick<Store, 'tasks' | 'blobs' | 'shared'>
  call: Upstreams['call']
  webhook: Webhook
  pushRules: PushRules
  clock: Clock
  /** Unguessable. */
  newId(): string
  /** Told in words of what an operator should know. */
  onTrouble(message: string): void
}

const UNANSWERED = adcpError('SERVICE_UNAVAILABLE', 'The question could not be answered.')

/** As tasks of an account are found (activation, `findOwnAccount`). */
function accountKey(account: AccountReference): string {
  return 'account_id' in account ? canonical(account) : naturalKey(account)
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

export function createLater(
  options: LaterOptions,
): Later & { resume(): Promise<void>; close(): Promise<void> } {
  const { brief, firstPage, store, call, webhook, pushRules, clock, newId, onTrouble } = options
  const records = createTaskRecords(store.blobs)
  const upstreamTasks = createUpstreamTasks({ call, clock })
  const stop = new AbortController()
  const notices = createNotices({ records, webhook, clock, closing: stop.signal, onTrouble })
  const inHand = new Map<string, { caller?: string; done: Promise<void> }>()
  let cancelRound = () => {}

  function work(id: string, task: () => Promise<void>, caller?: string): void {
    const done = task()
      .catch((error: Error) => onTrouble(`task ${id}: ${error.message}`)) // its record is there for the next round
      .finally(() => inHand.delete(id))
    inHand.set(id, { done, ...(caller !== undefined && { caller }) })
  }

  function isBusy(reader: Reader): boolean {
    const own = [...inHand.values()].filter(({ caller }) => caller === reader.caller)
    return own.length >= MOST_OF_A_CALLER
  }

  /** Says every few seconds that the task is in hand, so that no other replica takes it over. */
  function heartbeat(id: string): () => void {
    const ended = new AbortController()
    const beats = async () => {
      for (;;) {
        await pause(clock, HEARTBEAT_MS, AbortSignal.any([ended.signal, stop.signal]))
        if (ended.signal.aborted || stop.signal.aborted) return
        await store.tasks.claimPoll(id, clock.now())
      }
    }
    beats().catch((error: Error) => onTrouble(`task ${id}: ${error.message}`))
    return () => ended.abort()
  }

  /** Rows of the upstreams that work on it: each is waited for, none longer than `until`. */
  async function lateRows(inquiry: Inquiry, record: TaskRecord, until: number): Promise<Map<string, Slice>> {
    const tasks = new Map<string, string>(Object.entries(record.upstreamTasks))
    for (const [id, answer] of inquiry.answers())
      if (answer.kind === 'submitted') tasks.set(id, answer.taskId)
    const slices = await Promise.all(
      inquiry.asked.flatMap((asked) => {
        const taskId = tasks.get(asked.id)
        if (taskId === undefined) return []
        return [
          upstreamTasks
            .wait({ asked, taskId }, until, stop.signal)
            .then((slice) => ({ id: asked.id, slice })),
        ]
      }),
    )
    return new Map(slices.flatMap(({ id, slice }) => (slice ? [[id, slice]] : [])))
  }

  /** The task's end: a response, or why there is none. */
  async function endOf(record: TaskRecord): Promise<TaskProgress | undefined> {
    const until = record.createdAt + LONGEST_MS
    const inquiry = brief.ask(record.input, record.reader, until, stop.signal)
    await inquiry.settled(until)
    const late = await lateRows(inquiry, record, until)
    if (stop.signal.aborted) return undefined
    const ranked = inquiry.rank(late)
    const answer = ranked && firstPage(ranked, record.input, record.reader)
    return answer?.kind === 'answer'
      ? { status: 'completed', result: response(answer, record.contextId) }
      : { status: 'failed', error: answer?.error ?? UNANSWERED }
  }

  async function complete(record: TaskRecord): Promise<void> {
    const beating = heartbeat(record.id)
    try {
      const end = await endOf(record).catch((error: Error): TaskProgress => {
        onTrouble(`task ${record.id} failed: ${error.message}`)
        return { status: 'failed', error: UNANSWERED }
      })
      if (!end) return // we are closing: the record goes on with the next start
      await store.tasks.progress(record.id, end)
    } finally {
      beating()
    }
    await conclude(record)
  }

  /** A task that has ended: its caller is told, if it wants to be. */
  async function conclude(record: TaskRecord): Promise<void> {
    const task = await store.tasks.get(record.reader.caller, record.id)
    if (task && isFinal(task.status)) await notices.deliver(record, task)
  }

  function pushOf(input: GetSignalsRequest) {
    return input.push_notification_config === undefined
      ? undefined
      : readPushConfig(input.push_notification_config, pushRules)
  }

  async function refusal(input: GetSignalsRequest, reader: Reader): Promise<AdcpError | undefined> {
    if (input.push_notification_config === undefined) return undefined
    if (reader.visibility !== 'full') {
      return adcpError('AUTH_REQUIRED', 'Notifications are sent to authenticated callers only.', {
        field: 'push_notification_config',
      })
    }
    const push = await pushOf(input)
    return push && 'refused' in push ? push.refused : undefined
  }

  async function submit(inquiry: Inquiry, input: GetSignalsRequest, reader: Reader, contextId: string) {
    if (isBusy(reader)) {
      return adcpError('RATE_LIMITED', 'Too many of your questions are being worked on.', { retry_after: 30 })
    }
    const push = await pushOf(input)
    if (push && 'refused' in push) return push.refused
    const { push_notification_config: _, ...question } = input
    const submitted = [...inquiry.answers()].flatMap(([id, answer]: [string, UpstreamAnswer]) =>
      answer.kind === 'submitted' ? [[id, answer.taskId]] : [],
    )
    const record: TaskRecord = {
      id: `task_${newId()}`,
      input: question,
      reader,
      contextId,
      createdAt: clock.now(),
      upstreamTasks: Object.fromEntries(submitted) as Record<string, string>,
      ...(push && { push }),
    }
    try {
      await records.write(record) // first: a task without its record would never end
      await store.tasks.create({
        id: record.id,
        caller: reader.caller,
        type: 'get_signals',
        status: 'submitted',
        request: question,
        webhook: push !== undefined,
        ...(input.account && { account: accountKey(input.account) }),
      })
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error
      return adcpError('SERVICE_UNAVAILABLE', 'The task could not be kept.', { retry_after: 5 })
    }
    work(record.id, () => complete(record), reader.caller)
    return record.id
  }

  /** With a storage that replicas share, only what its worker has let go of. */
  async function mayTakeUp(record: TaskRecord, task: StoredTask): Promise<boolean> {
    if (!store.shared) return true
    const before = clock.now() - LEASE_MS
    if (!isFinal(task.status)) return await store.tasks.claimPoll(task.id, before)
    return (record.notice?.nextAt ?? task.completedAt ?? 0) < before
  }

  async function takeUp(id: string): Promise<void> {
    const record = await records.read(id)
    const task = record && (await store.tasks.get(record.reader.caller, id))
    if (!record || !task) {
      // Nobody was told of a task that was never made; a moment ago it may still be in the making.
      if (!record || record.createdAt < clock.now() - LEASE_MS) await records.remove(id)
      return
    }
    if (!(await mayTakeUp(record, task))) return
    await (isFinal(task.status) ? conclude(record) : complete(record))
  }

  /** Takes up what another process left, now and every so often. */
  async function resume(): Promise<void> {
    try {
      for (const id of await records.ids()) if (!inHand.has(id)) work(id, () => takeUp(id))
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error // the next round finds them
    }
    if (stop.signal.aborted) return
    cancelRound = clock.after(LEASE_MS, () => {
      resume().catch((error: Error) => onTrouble(`open tasks: ${error.message}`))
    })
  }

  return {
    refusal,
    submit,
    resume,
    async close() {
      stop.abort()
      cancelRound()
      await Promise.all([...inHand.values()].map(({ done }) => done))
    },
  }
}
