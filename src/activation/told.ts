/**
 * What an agent says about where a signal is live, wherever in its answer: at the top level, in `result`, in a task, in
 * artifacts (docs/protocol.md#how-agents-differ). Nothing is assumed: what it does not state stays unknown.
 */

import { isRecord } from '../adcp/json.js'
import type { Deployment, Destination } from '../adcp/signal.js'
import type { Action } from '../store/records/ledger.js'
import { mayOverlap, readDeployments, readKey } from './destination.js'

type Payload = Readonly<Record<string, unknown>>

type Told = {
  deployments: Deployment[]
  /** Requested destinations that the answer does not mention. */
  unknown: Destination[]
}

/** Keys under which answers are wrapped. */
const WRAPPERS = ['result', 'task', 'response', 'data', 'output', 'structuredContent'] as const
const LISTS = ['artifacts', 'parts'] as const
const DEEPEST = 6
const WIDEST = 20 // the last ones of a list: artifacts grow at their end

function* inside(payload: Payload, depth = 0): Generator<Payload> {
  yield payload
  if (depth === DEEPEST) return
  for (const name of WRAPPERS) {
    const inner = payload[name]
    if (isRecord(inner)) yield* inside(inner, depth + 1)
  }
  for (const name of LISTS) {
    const items = payload[name]
    if (!Array.isArray(items)) continue
    for (const item of items.slice(-WIDEST).reverse()) if (isRecord(item)) yield* inside(item, depth + 1)
  }
}

/** Before 3.0 an answer was about its one destination, and had the key at its top level. */
function keyed(payload: Payload, destinations: readonly Destination[]): Deployment[] {
  const [only, another] = destinations
  const activation_key = readKey(payload)
  return only && !another && activation_key ? [{ ...only, is_live: true, activation_key }] : []
}

/** The deployments that an answer states, and which of the requested destinations it leaves open. */
export function readTold(payload: Payload, destinations: readonly Destination[]): Told {
  let deployments: Deployment[] = []
  for (const part of inside(payload)) {
    deployments = readDeployments(part.deployments)
    if (deployments.length === 0) deployments = keyed(part, destinations)
    if (deployments.length > 0) break
  }
  const unknown = destinations.filter((one) => !deployments.some((told) => mayOverlap(told, one)))
  return { deployments, unknown }
}

/** Other names for the states of a task: A2A 0.3 and 1.0, and releases before 3.0. */
const STATES: Readonly<Record<string, string>> = {
  cancelled: 'canceled',
  deployed: 'completed',
  pending: 'submitted',
  processing: 'working',
}

/** The state of a task, in the protocol's words; undefined when nothing states it. */
export function readStatus(payload: Payload): string | undefined {
  for (const { status } of inside(payload)) {
    const word = isRecord(status) ? status.state : status
    if (typeof word !== 'string') continue
    const plain = word
      .toLowerCase()
      .replace(/^task_state_/, '')
      .replaceAll('_', '-')
    return STATES[plain] ?? plain
  }
  return undefined
}

/** The members of an answer or a result that state it. */
export function toldFields({ deployments, unknown }: Told): Record<string, unknown> {
  return { deployments, ...(unknown.length > 0 && { ext: { tributary: { unknown } } }) }
}

/**
 * What is kept of an activation's answer. Its deployments hold their keys; each answer decides anew who may see them.
 */
export type Activated = {
  action: Action
  deployments: Deployment[]
  /** Requested destinations that the upstream did not mention; absent in rows of an earlier release. */
  unknown?: Destination[]
  taskId?: string
  upstreamTaskId?: string
}
