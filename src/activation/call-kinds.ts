/**
 * What a call to an upstream means here, by its task: what is kept of its answer, and what follows from its outcome. A report of
 * usage is its own record: how many of its rows were accepted, and which were not. An activation changes the ledger and the tasks,
 * and repeating it may undo a later request.
 */
import { type AdcpError, adcpError } from '../adcp/answer.js'
import type { Deployment, Destination } from '../adcp/signal.js'
import type { Call } from '../store/call.js'
import type { PromisedRecords } from '../store/promised-work.js'
import type { Action } from '../store/records/ledger.js'
import type { NewTask } from '../store/records/tasks.js'
import { readRow } from '../upstreams/rows/listing.js'
import type { CallKind, Delivered, StillToDo } from './delivery.js'
import { createDestinationSet, mayOverlap } from './destination-set.js'
import { holderOf, standingFor, switchedOnLate, unwantedNow, visibleDeployments } from './holders.js'
import { upstreamTaskJob } from './task-progress.js'
import { type Activated, activationJudge, readDeployments, readTold, seeCode } from './upstream-answer.js'
import { type PartAnswer, readUsage, usageJudge } from './usage-answer.js'

const RETRY_SECONDS = 10
const ASK = 'Ask whoever runs the upstream; a report under a fresh key may count the row a second time.'

/** What a call to report_usage means. Parts do not affect each other, so none supersedes another. */
export const usageCalls: CallKind = {
  judge: ({ rows }) => usageJudge(rows.length),
  persists: () => true, // usage must be reported: the upstream gets it when it is back
  undone: () => 'nothing',
  rest: (call) => ({ call, isNeeded: true }),
  digest: (call, done): PartAnswer => readUsage(done?.kind === 'done' ? done.payload : {}, call.rows.length),
  follows: async () => ({}), // the call itself is the record
}

/** A row, or a member of it, as `error.field` names it. */
export function rowField(row: number, field?: string): string {
  return field === undefined ? `usage[${row}]` : `usage[${row}].${field}`
}

/** Why none of a part's rows counts as accepted. */
function partError({ call, retryAfter = RETRY_SECONDS }: Delivered, field: string): AdcpError {
  if (call.state === 'refused') return { ...(call.answer as AdcpError), field }
  const details = { upstream: call.agentUrl }
  if (call.state !== 'open') {
    const message = 'The upstream never answered, and whether it counted the row is not known.'
    return adcpError('INVALID_REQUEST', message, { field, details, suggestion: ASK })
  }
  return adcpError(
    'SERVICE_UNAVAILABLE',
    'The upstream that sold this signal has not answered yet; this agent goes on telling it.',
    {
      field,
      retry_after: retryAfter,
      suggestion:
        'Repeat the whole request with the same idempotency_key: what was counted is not counted twice.',
      details,
    },
  )
}

/** A row that the upstream refused in its answer. */
function refusedRow({ agentUrl, rows }: Call, at: number, field?: string, code?: string): AdcpError {
  return adcpError('INVALID_REQUEST', 'The upstream that sold this signal refused the row.', {
    field: rowField(rows[at] ?? 0, field),
    suggestion: `Mend the row and report it under a new idempotency_key.${seeCode(code)}`,
    details: { upstream: agentUrl, ...(code !== undefined && { upstream_code: code }) },
  })
}

/** A row of which the upstream did not say whether it counted it. */
function unsaidRow({ agentUrl, rows }: Call, at: number, field?: string, code?: string): AdcpError {
  const message = 'The upstream that sold this signal did not say whether it counted the row.'
  return adcpError('INVALID_REQUEST', message, {
    field: rowField(rows[at] ?? 0, field),
    suggestion: ASK,
    details: { upstream: agentUrl, ...(code !== undefined && { upstream_code: code }) },
  })
}

/** The rows of an answered part that may not have been counted. */
function notCounted(call: Call, { accepted, errors, code }: PartAnswer): AdcpError[] {
  const named = new Set(errors.map(({ at }) => at))
  const others = [...call.rows.keys()].filter((at) => !named.has(at))
  // Where it accepts more rows than it leaves unnamed, it counted some of those that it names.
  const tell = others.length < (accepted ?? 0) ? unsaidRow : refusedRow
  const told = errors.map((error) => tell(call, error.at, error.field, error.code))
  if (others.length <= (accepted ?? 0)) return told
  const tellOther = accepted === 0 ? refusedRow : unsaidRow
  return [...told, ...others.map((at) => tellOther(call, at, undefined, code))]
}

export type PartOutcome = {
  /** Counts the rows that the upstream accepted, those that it may still accept, and the others. */
  accepted: number
  pending: number
  refused: number
  errors: AdcpError[]
}

/** The outcome of one part's rows. */
export function partOutcome(delivered: Delivered): PartOutcome {
  const { call } = delivered
  const rows = call.rows.length
  if (call.state !== 'answered') {
    const errors = call.rows.map((row) => partError(delivered, rowField(row)))
    const pending = call.state === 'open' ? rows : 0
    return { accepted: 0, pending, refused: rows - pending, errors }
  }
  const answer = call.answer as PartAnswer
  const { accepted = 0 } = answer
  return { accepted, pending: 0, refused: rows - accepted, errors: notCounted(call, answer) }
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

/** What later requests of the same holder wish against it. Requests of other holders do not count. */
function wishedAgainst(call: Call, later: readonly Call[]): Destination[] {
  const isAgainst = (other: Call) =>
    other.caller === call.caller && other.account === call.account && actionOf(other) !== actionOf(call)
  return later.filter(isAgainst).flatMap(destinationsOf)
}

/** How much of a wish they reversed: a request for an account reverses a part of one for its platform. */
function undone(call: Call, later: readonly Call[]): 'nothing' | 'a part' | 'all' {
  const against = createDestinationSet(wishedAgainst(call, later))
  const wished = destinationsOf(call)
  if (!wished.some(against.overlaps)) return 'nothing'
  return wished.every(against.covers) ? 'all' : 'a part'
}

/**
 * Without the destinations that they reversed. All of a platform is activated although an account of it was switched off since; it
 * is not switched off where an account of it was activated since.
 */
function rest(call: Call, later: readonly Call[]): StillToDo {
  const opposite = wishedAgainst(call, later)
  const against = createDestinationSet(opposite)
  const wished = destinationsOf(call)
  if (!wished.some(against.overlaps)) return { call, isNeeded: true }
  const isOff = actionOf(call) === 'deactivate'
  const isReversed = isOff ? against.overlaps : against.covers
  const destinations = wished.filter((one) => !isReversed(one))
  const reversed = opposite.filter(createDestinationSet(wished).overlaps)
  const said = isOff ? { kept: [...(call.kept ?? []), ...wished.filter(isReversed)] } : { reversed }
  return {
    call: { ...call, ...said, args: { ...call.args, destinations } },
    isNeeded: destinations.length > 0,
  }
}

/** The part of a deactivation that is still to be done: destinations that other callers have on must stay on. */
async function stillToDo({ ledger }: Pick<PromisedRecords, 'ledger'>, call: Call): Promise<StillToDo> {
  if (actionOf(call) === 'activate' || call.segment === undefined) return { call, isNeeded: true }
  const entries = await ledger.ofSegment(call.agentUrl, call.segment)
  const isKept = createDestinationSet(standingFor(entries, holderOf(call))).overlaps
  const kept = destinationsOf(call).filter(isKept)
  if (kept.length === 0) return { call, isNeeded: true }
  const destinations = destinationsOf(call).filter((one) => !isKept(one))
  if (destinations.length === 0) return { call: { ...call, kept }, isNeeded: false }
  return { call: { ...call, kept, args: { ...call.args, destinations } }, isNeeded: true }
}

/** The segment's row in an answer, as the upstream now delivers it. */
function deploymentsIn(
  payload: Readonly<Record<string, unknown>>,
  segment: string | undefined,
): Deployment[] {
  const rows = Array.isArray(payload.signals) ? payload.signals : []
  for (const raw of rows) {
    const row = readRow(Buffer.from(JSON.stringify(raw)))
    if (row.kind === 'listing' && row.listing.signal_agent_segment_id === segment) {
      return readDeployments(row.listing.deployments)
    }
  }
  return []
}

/** How to see the effect of an activation, at an upstream that would not recognise a repetition. */
const state: NonNullable<CallKind['state']> = {
  question: ({ name, segment, args: { destinations, account } }) => ({
    ...{ discovery_mode: 'brief', signal_spec: name ?? segment, destinations },
    ...(account !== undefined && { account }),
  }),
  read(call, payload) {
    const wanted = actionOf(call) === 'activate'
    const shown = deploymentsIn(payload, call.segment)
    const deployments = destinationsOf(call).map((destination) =>
      shown.find((one) => one.is_live === wanted && mayOverlap(one, destination)),
    )
    return deployments.includes(undefined) ? undefined : { kind: 'done', payload: { deployments } }
  },
}

/** What a call to activate_signal means; `newTaskId` names the task of an upstream that answered `submitted`. */
export function activationCalls(newTaskId: () => string): CallKind {
  return {
    judge: (call) =>
      activationJudge({ wantsLive: actionOf(call) === 'activate', destinations: destinationsOf(call) }),
    persists: ({ key }) => key === '', // nobody waits for what is sent by itself
    ...{ undone, rest, stillToDo, state },
    digest(call, done): Activated {
      const action = actionOf(call)
      const kept = (call.kept ?? []).map((one) => ({ ...one, is_live: true }))
      if (!done) return { action, deployments: kept }
      const reversed = call.reversed ?? []
      if (done.kind === 'submitted') {
        const unknown = [...destinationsOf(call), ...reversed]
        const named = done.taskId !== undefined && { upstreamTaskId: done.taskId }
        return { action, deployments: kept, unknown, taskId: newTaskId(), ...named }
      }
      const { deployments, unknown } = readTold(done.payload, destinationsOf(call))
      return { action, deployments: [...deployments, ...kept], unknown: [...unknown, ...reversed] }
    },
    async follows({ ledger }, call) {
      const decide = (repositories: Pick<PromisedRecords, 'ledger'>) => unwantedNow(repositories, call)
      // What it wished for may be done, or it came to nothing: by now nobody may want what was left on for others.
      const mayBeDone = call.state === 'answered' || call.state === 'abandoned'
      const decides = mayBeDone === (actionOf(call) === 'deactivate') ? { decide } : {}
      if (call.state === 'abandoned') return { ...decides, settlement: { outcome: 'unknown' } }
      if (call.state !== 'answered') {
        if (call.state === 'superseded') return { ...decides, settlement: { outcome: 'superseded' } }
        const settlement = { outcome: 'failed', error: call.answer } as const
        return { ...decides, settlement, frees: true } // nothing was done under its key
      }
      const { deployments, taskId, upstreamTaskId } = call.answer as Activated
      const told = { deployments: withoutKeys(deployments) }
      // Stored with the outcome, not after it: this saves a commit, and a replay finds it in any case.
      const kept = call.answer
      if (taskId === undefined) {
        const decideLate = (records: Pick<PromisedRecords, 'ledger'>) => switchedOnLate(records, call)
        const late = call.reversed ? { decide: decideLate } : decides
        return { ...late, kept, settlement: { outcome: 'completed', ...told } }
      }
      const entry = await ledger.get(call.id)
      const task: NewTask = {
        id: taskId,
        caller: call.caller,
        ...(entry?.account !== undefined && { account: entry.account }),
        type: 'activate_signal',
        status: 'submitted',
        upstream: entry?.upstream ?? call.agentUrl,
        ...(upstreamTaskId !== undefined && { upstreamTaskId }),
        callId: call.id,
        request: {
          action: actionOf(call),
          signal_agent_segment_id: entry?.handle,
          destinations: call.args.destinations,
          ...(entry?.pricingOptionId !== undefined && { pricing_option_id: entry.pricingOptionId }),
          ...(entry?.account !== undefined && { account: JSON.parse(entry.account) as unknown }),
        },
      }
      const asking = upstreamTaskJob({ ...call, taskId, upstreamTaskId })
      return { kept, settlement: { outcome: 'submitted', ...told, taskId }, tasks: [task], jobs: [asking] }
    },
  }
}
