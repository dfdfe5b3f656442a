/**
 * What the tasks that change something need, and the background work that finishes whatever a crash or a silent
 * upstream left open.
 */
import type { Clock } from '../net/clock.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import { createForgetting, DEFAULT_RETENTION, type Retention } from '../store/promised-work.js'
import type { Store } from '../store/store.js'
import { createWorker, type Worker } from '../store/worker.js'
import { activationCalls, usageCalls } from './call-kinds.js'
import { type CallUpstream, createDelivery, type Reached } from './delivery.js'
import { createOnce } from './once.js'
import type { ResolveHandle } from './route.js'
import { createTaskProgress } from './task-progress.js'

const FORGET_EVERY_MS = 60_000

export type ActivationOptions = {
  store: Store
  clock: Clock
  /** Unguessable. */
  newId: () => string
  resolve: ResolveHandle
  /** The current id of an agent (canonical url): an operator may change it or remove the agent. */
  upstreamAt: (agentUrl: string) => string
  /** Whether a caller has a credential of its own for an upstream. */
  hasOwnCredential: (caller: string, agentUrl: string) => boolean
  /** How long things are kept. Default: 30 days, the ledger for ever. */
  retention?: Retention
  /** The upstreams' `call`, with the caller's own credential where the configuration has one. */
  call: CallUpstream
  /** An upstream where something changed for a caller: what it offers should be read again soon. */
  refreshSoon: (upstream: string, caller: string) => void
  /** Receives what an operator should know. */
  onProblem: (problem: string) => void
  /** Crash tests hold requests at a step and kill the process there. */
  reached?: Reached
}

/** For one running server. Stored work goes on from `start` on. */
export function createActivation(options: ActivationOptions) {
  const { store, clock, newId, resolve, upstreamAt, hasOwnCredential, call, refreshSoon, onProblem } = options
  const { retention = DEFAULT_RETENTION, reached = () => {} } = options
  const createdDelivery = createDelivery({
    ...{ store, clock, call, upstreamAt, reached },
    kinds: { activate_signal: activationCalls(() => `task_${newId()}`), report_usage: usageCalls },
    onChanged: refreshSoon,
  })
  const createdProgress = createTaskProgress({ store, clock, call, upstreamAt, onChanged: refreshSoon })
  const worker: Worker = createWorker({
    ...{ jobs: store.jobs, clock },
    owner: newId(),
    kinds: {
      call: { run: (held) => delivery.run(held) },
      upstream_task: { run: (held) => progress.run(held) },
    },
    onProblem: (problem) => onProblem(`activation: ${problem}`),
  })
  const delivery = createdDelivery(worker)
  const progress = createdProgress(worker)
  const once = createOnce({ store, clock, delivery, reached })

  const forgetOld = createForgetting(store, retention)
  let forgetting: Promise<void> = Promise.resolve()
  let cancelForget = () => {}
  let closed = false

  function forget(): void {
    forgetting = forgetOld(clock.now())
      .catch((error: unknown) => {
        // The next round does what this one could not; a storage that is down is not a bug.
        const what = error instanceof StorageUnavailable ? error.message : String(error)
        onProblem(`activation: what is past its time could not be forgotten: ${what}`)
      })
      .then(() => {
        if (!closed) cancelForget = clock.after(FORGET_EVERY_MS, forget)
      })
  }

  return {
    ...{ store, newId, resolve, upstreamAt, hasOwnCredential },
    once,
    progress,
    /** By kind of job: ends one without doing its work, for an operator. */
    givingUp: { call: delivery.giveUp, upstream_task: progress.giveUp },
    /** Does all the work that is due now, once. */
    round: worker.round,
    /** Continues what an earlier process left open, until `close`. */
    start(): void {
      worker.start()
      forget()
    },
    /** Starts nothing more; resolves when running work has ended. */
    async close(): Promise<void> {
      closed = true
      cancelForget()
      await worker.close()
      await forgetting
    },
  }
}

export type Activation = ReturnType<typeof createActivation>
