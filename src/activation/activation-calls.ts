/**
 * What a call to an upstream's activate_signal means here: what is kept of its answer, what follows from its outcome in
 * the ledger and among the tasks, and when repeating it would undo a later request.
 */
import type { Deployment, Destination } from '../adcp/signal.js'
import type { Call } from '../store/calls.js'
import type { Action } from '../store/ledger.js'
import type { CallKind } from './delivery.js'
import { notLiveYet, overlap, readDeployments, visibleDeployments } from './destination.js'

/** What is kept of an activation's answer. Deployments hold their keys: who may see them is decided at each answer. */
export type Activated = {
  action: Action
  deployments: Deployment[]
  taskId?: string
  upstreamTaskId?: string
}

function actionOf(call: Call): Action {
  return call.args.action === 'deactivate' ? 'deactivate' : 'activate'
}

function destinationsOf(call: Call): readonly Destination[] {
  return call.args.destinations as readonly Destination[]
}

/** Without keys: the ledger is read by operators. */
function withoutKeys(deployments: readonly Deployment[]): Deployment[] {
  return visibleDeployments(deployments, [])
}

/** What a call to activate_signal means; `newTaskId` names the task of an upstream that answered `submitted`. */
export function activationCalls(newTaskId: () => string): CallKind {
  return {
    errorsRefuse: true,
    undoes: (call, later) =>
      actionOf(call) !== actionOf(later) &&
      destinationsOf(call).some((one) => destinationsOf(later).some((other) => overlap(one, other))),
    digest(call, understood): Activated {
      const action = actionOf(call)
      if (understood.kind === 'submitted') {
        const deployments = notLiveYet(destinationsOf(call))
        return { action, deployments, taskId: newTaskId(), upstreamTaskId: understood.taskId }
      }
      const deployments = readDeployments(understood.payload.deployments)
      return { action, deployments: deployments.length > 0 ? deployments : notLiveYet(destinationsOf(call)) }
    },
    async settled({ ledger, tasks, idempotency }, call) {
      if (call.state === 'refused') {
        await ledger.settle(call.id, { outcome: 'failed', error: call.answer })
        await idempotency.release(call.caller, call.key) // nothing was done under it
        return
      }
      if (call.state !== 'answered') {
        await ledger.settle(call.id, { outcome: call.state === 'superseded' ? 'superseded' : 'unknown' })
        return
      }
      // With the outcome, not after it: one commit less, and no moment at which a replay would have to work it out.
      await idempotency.answer(call.caller, call.key, call.answer)
      const { deployments, taskId, upstreamTaskId } = call.answer as Activated
      const told = { deployments: withoutKeys(deployments) }
      if (taskId === undefined || upstreamTaskId === undefined) {
        await ledger.settle(call.id, { outcome: 'completed', ...told })
        return
      }
      const entry = await ledger.get(call.id)
      await ledger.settle(call.id, { outcome: 'submitted', ...told, taskId })
      await tasks.create({
        id: taskId,
        caller: call.caller,
        ...(entry?.account !== undefined && { account: entry.account }),
        type: 'activate_signal',
        status: 'submitted',
        upstream: call.upstream,
        upstreamTaskId,
        callId: call.id,
        request: {
          action: actionOf(call),
          signal_agent_segment_id: entry?.handle,
          destinations: call.args.destinations,
          ...(entry?.pricingOptionId !== undefined && { pricing_option_id: entry.pricingOptionId }),
          ...(entry?.account !== undefined && { account: JSON.parse(entry.account) as unknown }),
        },
      })
    },
  }
}
