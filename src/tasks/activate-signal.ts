/**
 * activate_signal: a signal found here is made live, or switched off, at the upstream that offers it (specification,
 * "Operation `activate_signal`"; schemas signals/activate-signal). Intent and outcome stand in the ledger.
 */
import { findOwnAccount, formerAccount, type OwnAccount } from '../activation/accounts.js'
import type { Activation, Conclusion, Plan } from '../activation/activation.js'
import type { Delivered } from '../activation/delivery.js'
import { createDestinationSet } from '../activation/destination-set.js'
import { type Holder, standingFor, visibleDeployments } from '../activation/holders.js'
import { notOn, type Route, routeActivation, routeDeactivation, type SeenAs } from '../activation/route.js'
import { type Activated, toldFields } from '../activation/upstream-answer.js'
import { type AdcpError, type Answer, howMany, type Refused, refuse } from '../adcp/answer.js'
import type { Caller } from '../adcp/caller.js'
import { type Destination, destinationsOf, eachOnce } from '../adcp/signal.js'
import { ActivateSignalRequest } from '../adcp/signal-requests.js'
import { ActivateSignalResponse } from '../adcp/task-schemas.js'
import { destinationKey } from '../merge/deployments.js'
import { type NewCall, upstreamKey } from '../store/call.js'
import type { EntryOfJob } from '../store/promised-work.js'
import { type KeyedRequest, keyedRequest } from '../store/records/idempotency.js'
import type { TaskStatus } from '../store/records/tasks.js'
import type { Task } from './task.js'

const RETRY_SECONDS = 10

/** With the destinations as identities have them. */
type ActivateRequest = Omit<ActivateSignalRequest, 'destinations'> & {
  destinations: readonly Destination[]
}

type Activating = Pick<
  Activation,
  'store' | 'once' | 'newId' | 'resolve' | 'upstreamAt' | 'hasOwnCredential' | 'hasSharedCredential'
>

/** The refusal of a destination that is no agent's url: nothing could be compared with it, so it could never be switched off. */
function notAnAgent(destinations: readonly Destination[]): Refused | undefined {
  const at = destinations.findIndex((one) => destinationKey(one) === undefined)
  if (at < 0) return undefined
  return refuse('INVALID_REQUEST', 'An agent is named by its http or https url.', {
    field: `destinations[${at}].agent_url`,
    suggestion: 'Take destinations from the deployments of get_signals.',
  })
}

function render(caller: Caller, answer: unknown, replayed: boolean): Answer {
  const { action, deployments: told, unknown = [], taskId } = answer as Activated
  const deployments = visibleDeployments(told, caller.destinations)
  const fields = toldFields({ deployments, unknown })
  const again = replayed && { replayed }
  if (taskId !== undefined) {
    const status = 'submitted' satisfies TaskStatus
    const message = `The upstream is working on it: poll get_task_status with task_id ${taskId}.`
    return { kind: 'answer', status, message, fields: { task_id: taskId, ...fields }, ...again }
  }
  const live = deployments.filter((deployment) => deployment.is_live).length
  const done =
    action === 'deactivate'
      ? `Deactivated on ${deployments.length - live} of ${howMany(deployments.length, 'destination')}.`
      : `Activated: live on ${live} of ${howMany(deployments.length, 'destination')}.`
  const untold =
    unknown.length > 0
      ? ` The upstream did not say of ${howMany(unknown.length, 'destination')} whether it is live there: read the signal with get_signals.`
      : ''
  return { kind: 'answer', message: `${done}${untold}`, fields, ...again }
}

function conclude([delivered]: readonly Delivered[]): Conclusion {
  if (!delivered) throw new Error('An activation without a call')
  const { call, retryAfter = RETRY_SECONDS, watched } = delivered
  if (call.state === 'answered') return { kind: 'kept', answer: call.answer }
  if (call.state === 'refused') {
    return { kind: 'open', said: { kind: 'refused', error: call.answer as AdcpError } }
  }
  if (call.state !== 'open') {
    const message =
      call.state === 'superseded'
        ? 'A later request for this signal took the place of this one.'
        : 'The upstream never answered, and whether it acted is not known.'
    const suggestion =
      call.state === 'superseded'
        ? 'Read the signal again with get_signals; use a fresh key for another request.'
        : 'Ask whoever runs the upstream, or read the signal with get_signals: what is_live says there decides. ' +
          'Then deactivate it, or activate it again with a fresh key; a fresh key may activate it a second time.'
    return {
      kind: 'open',
      said: refuse('INVALID_REQUEST', message, { field: 'idempotency_key', suggestion }),
    }
  }
  const message = watched
    ? 'The upstream did not answer and would take a repetition for a second request, so it gets none. This agent reads ' +
      'at the upstream what is live, to learn whether it acted.'
    : 'The upstream did not answer, so it is not known yet whether it acted. This agent goes on asking it.'
  const suggestion = 'Repeat the same request with the same idempotency_key, or deactivate the signal.'
  return {
    kind: 'open',
    said: refuse('SERVICE_UNAVAILABLE', message, { retry_after: retryAfter, suggestion }),
  }
}

export function activateSignal(activation: Activating): Task<typeof ActivateSignalRequest> {
  const { store, once, newId, resolve, upstreamAt, hasOwnCredential, hasSharedCredential } = activation

  /** How the upstream sees a caller with its account now. */
  function asNow({ id }: Caller, account: OwnAccount | undefined, agentUrl: string): SeenAs {
    const upstreamAccount = account?.at(agentUrl)
    return {
      seenAs: hasOwnCredential(id, agentUrl) ? 'own' : 'shared',
      ...(account && { account: account.key }),
      ...(upstreamAccount && { upstreamAccount }),
    }
  }

  /** The account that a request names. One that is gone can only be named for what was activated for it. */
  async function accountOf(
    request: ActivateRequest,
    caller: Caller,
  ): Promise<OwnAccount | Refused | undefined> {
    const { account: reference, action, signal_agent_segment_id: handle } = request
    if (!reference) return undefined
    const found = await findOwnAccount(caller, reference, store.accounts, 'account')
    if (found.kind === 'account') return found.account
    if (action !== 'deactivate' || found.error.code !== 'ACCOUNT_NOT_FOUND') return found
    const former = await formerAccount(caller, reference, store.accounts)
    const history = await store.ledger.history(caller.id, handle)
    return history.some(({ account }) => account === former.key) ? former : found
  }

  async function route(request: ActivateRequest, caller: Caller, account: OwnAccount | undefined) {
    const { action = 'activate', signal_agent_segment_id: handle, destinations, pricing_option_id } = request
    const { idempotency_key, governance_context } = request
    const said = {
      idempotency_key,
      ...(request.action && { action }),
      ...(request.account && { account: request.account }),
      ...(governance_context !== undefined && { governance_context }),
    }
    const wanted = {
      said,
      ...{ action, handle, destinations },
      ...(pricing_option_id !== undefined && { optionId: pricing_option_id }),
      ...(account && { account: account.key }),
    }
    const isGone = account !== undefined && account.id === undefined
    const signal = isGone ? undefined : await resolve(handle, caller.id, account?.id)
    if (action === 'activate') return routeActivation(signal, wanted)
    const history = await store.ledger.history(caller.id, handle)
    const routed = routeDeactivation(history, signal, wanted)
    return routed.kind === 'route' && (await isOthers(routed.route, caller, account, destinations))
      ? notOn()
      : routed
  }

  /** What somebody else activated, and the caller never did, does not exist for this caller. */
  async function isOthers(
    to: Route,
    caller: Caller,
    account: OwnAccount | undefined,
    destinations: readonly Destination[],
  ): Promise<boolean> {
    if (to.activatedAs) return false
    const holder: Holder = { caller: caller.id, ...asNow(caller, account, to.agentUrl) }
    const entries = await store.ledger.ofSegment(to.agentUrl, to.segmentId)
    return destinations.some(createDestinationSet(standingFor(entries, holder)).overlaps)
  }

  function planned(
    request: ActivateRequest,
    caller: Caller,
    account: OwnAccount | undefined,
    to: Route,
    keyed: KeyedRequest,
  ): Plan {
    const { action = 'activate', governance_context, context } = request
    const destinations = eachOnce(request.destinations) // refusals name the place in the request, so it is repeated until here
    const upstream = upstreamAt(to.agentUrl) // its id may have changed since the ledger entry, or it may be gone
    // What was activated is switched off as what it was, whichever account or credential the configuration names by now.
    const seen = to.activatedAs ?? asNow(caller, account, to.agentUrl)
    const { seenAs, upstreamAccount } = seen
    // A deactivation goes with a credential where the activation did: without one it would switch off nothing, and be told as done.
    const isCredentialed = to.isCredentialed || hasSharedCredential(to.agentUrl)
    const id = newId()
    const call: NewCall = {
      id,
      ...{ caller: keyed.caller, key: keyed.key, task: 'activate_signal', agentUrl: to.agentUrl },
      upstreamKey: upstreamKey(id),
      segment: to.segmentId,
      seenAs,
      ...(isCredentialed && { isCredentialed: true }),
      ...(seen.account !== undefined && { account: seen.account }),
      ...(to.name !== undefined && { name: to.name }),
      rows: [],
      args: {
        // The default is left out: older agents refuse or ignore the argument.
        ...(action === 'deactivate' && { action }),
        signal_agent_segment_id: to.segmentId,
        destinations,
        ...(to.upstreamOptionId !== undefined && { pricing_option_id: to.upstreamOptionId }),
        ...(upstreamAccount !== undefined && { account: upstreamAccount }),
        ...(governance_context !== undefined && { governance_context }),
        ...(context !== undefined && { context }),
      },
    }
    const entry: EntryOfJob = {
      id,
      caller: caller.id,
      ...(seen.account !== undefined && { account: seen.account }),
      action,
      handle: request.signal_agent_segment_id,
      signalHandle: to.signalHandle,
      offerHandle: to.offerHandle,
      ...(to.optionId !== undefined && { pricingOptionId: to.optionId }),
      ...(to.upstreamOptionId !== undefined && { upstreamOptionId: to.upstreamOptionId }),
      ...{ upstream, agentUrl: to.agentUrl, segmentId: to.segmentId },
      ...(upstreamAccount !== undefined && { upstreamAccount }),
      ...{ destinations, seenAs, ...(isCredentialed && { isCredentialed: true }) },
    }
    return { kind: 'plan', calls: [call], entries: [entry] }
  }

  /** `deadline` in ms since the epoch. Never rejects for a caller's mistake or a storage that cannot serve. */
  async function activate(request: ActivateRequest, caller: Caller, deadline: number): Promise<Answer> {
    const keyed = keyedRequest('activate_signal', caller, request)

    async function plan(): Promise<Plan | Answer> {
      const unnamed = notAnAgent(request.destinations)
      if (unnamed) return unnamed
      const account = await accountOf(request, caller)
      if (account && 'error' in account) return account
      const routed = await route(request, caller, account)
      if (routed.kind === 'refused') return routed
      return planned(request, caller, account, routed.route, keyed)
    }

    const work = {
      plan,
      conclude: async (delivered: readonly Delivered[]) => conclude(delivered),
      render: (answer: unknown, replayed: boolean) => render(caller, answer, replayed),
    }
    return await once(keyed, work, deadline)
  }

  return {
    name: 'activate_signal',
    title: 'Activate a signal',
    description:
      'Makes a signal live on the destinations you name, or with action "deactivate" switches it off. Take ' +
      'signal_agent_segment_id and pricing_option_id unchanged from get_signals. When several upstreams offer the ' +
      'signal, the answer lists the choices. Send a fresh idempotency_key for each activation and the same one when ' +
      'you repeat a request: nothing is activated twice. An answer with task_id is not done yet: poll get_task_status.',
    request: ActivateSignalRequest,
    response: ActivateSignalResponse,
    destructive: true, // deactivate
    mutating: true,
    handle: (input, { caller, deadline }) =>
      activate({ ...input, destinations: destinationsOf(input.destinations) }, caller, deadline),
  }
}
