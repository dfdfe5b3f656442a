/**
 * The activation room: what callers do with signals they found, and the work that goes on when nobody asks, so that
 * whatever a crash or a silent upstream left open comes to an end.
 */
import type { Clock } from '../net/clock.js'
import { CALL_KEEP_MS } from '../store/calls.js'
import type { Store } from '../store/store.js'
import { TASK_KEEP_MS } from '../store/tasks.js'
import { StorageUnavailable } from '../store/unavailable.js'
import { createActivate } from './activate.js'
import { activationCalls } from './activation-calls.js'
import { createAddressOf } from './address.js'
import { createDelivery, type Reached, type UpstreamCall } from './delivery.js'
import { createListAccounts } from './list-accounts.js'
import { createOnce } from './once.js'
import { createReportUsage } from './report-usage.js'
import type { Resolve } from './route.js'
import { createSyncAccounts } from './sync-accounts.js'
import { createTaskList } from './task-list.js'
import { createTaskProgress } from './task-progress.js'
import { usageCalls } from './usage-calls.js'

const ROUND_EVERY_MS = 10_000
const ROUND_BUDGET_MS = 30_000 // for one call of a round
const REQUEST_BUDGET_MS = 30_000 // for the upstreams, whatever longer time the caller's transport gives

export type ActivationOptions = {
  store: Store
  clock: Clock
  /** Unguessable. */
  newId: () => string
  resolve: Resolve
  /** What an agent (canonical url) is called by now: an operator may give it another id, or take it away. */
  upstreamAt: (agentUrl: string) => string
  /** The upstreams' `call`, with the caller's own credential where the configuration has one. */
  call: UpstreamCall
  /** An upstream where something changed for a caller: what it offers should be read again soon. */
  refreshSoon: (upstream: string, caller: string) => void
  /** Told of what an operator should know. */
  onProblem: (problem: string) => void
  /** A crash test holds requests at a step and kills the process there. */
  reached?: Reached
}

export async function createActivation(options: ActivationOptions) {
  const { store, clock, newId, resolve, upstreamAt, call, refreshSoon, onProblem } = options
  const { reached = () => {} } = options
  const addressOf = createAddressOf(store.ledger, upstreamAt)
  const delivery = createDelivery({
    ...{ store, clock, call, addressOf, reached },
    kinds: { activate_signal: activationCalls(() => `task_${newId()}`), report_usage: usageCalls },
    owner: newId(),
    onChanged: refreshSoon,
  })
  const once = createOnce({ store, clock, delivery, reached })
  const progress = createTaskProgress({ store, clock, call, addressOf, onChanged: refreshSoon })
  const activate = createActivate({ store, once, newId, resolve, upstreamAt })
  const reportUsage = createReportUsage({ store, once, newId, resolve, upstreamAt })
  const tasks = createTaskList({ store, progress })

  /** One round of the work that goes on unasked: open calls, upstreams' tasks, what is past its time. */
  async function round(): Promise<void> {
    await delivery.repeatOpen(ROUND_BUDGET_MS)
    await progress.advanceUnasked(ROUND_BUDGET_MS)
    await store.idempotency.forgetExpired()
    await store.calls.forgetSettled(clock.now() - CALL_KEEP_MS)
    await store.tasks.forgetFinished(clock.now() - TASK_KEEP_MS)
  }

  let working: Promise<void> = Promise.resolve()
  let cancel = () => {}
  let closed = false

  function work(): void {
    working = round()
      .catch((error: unknown) => {
        // The next round does what this one could not; a storage that is down is no bug.
        const what = error instanceof StorageUnavailable ? error.message : String(error)
        onProblem(`activation: the work of a round stopped: ${what}`)
      })
      .then(() => {
        if (!closed) cancel = clock.after(ROUND_EVERY_MS, work)
      })
  }

  // Nobody else uses an embedded storage: whoever held these leases is gone.
  if (!store.shared) await store.calls.endLeases()

  const until = (deadline: number) => Math.min(deadline, clock.now() + REQUEST_BUDGET_MS)

  return {
    activate: (...[request, principal, deadline]: Parameters<typeof activate>) =>
      activate(request, principal, until(deadline)),
    reportUsage: (...[request, principal, deadline]: Parameters<typeof reportUsage>) =>
      reportUsage(request, principal, until(deadline)),
    taskStatus: (...[request, principal, deadline]: Parameters<typeof tasks.status>) =>
      tasks.status(request, principal, until(deadline)),
    listTasks: tasks.list,
    listAccounts: createListAccounts({ store }),
    syncAccounts: createSyncAccounts({ store }),
    round,
    /** Takes up what an earlier process left open, and goes on with it until `close`. */
    start: work,
    /** Ends the rounds; resolves when the one under way has ended. */
    async close(): Promise<void> {
      closed = true
      cancel()
      await working
    },
  }
}

export type Activation = Awaited<ReturnType<typeof createActivation>>
