/**
 * What an agent says of where a signal is live, wherever in its answer it says so: as the answer itself, in `result`,
 * in a task, in artifacts (docs/protocol.md#how-agents-differ). Nothing is added: where it says nothing, nothing is known.
 */

import { isRecord } from '../adcp/json.js'
import type { Deployment, Destination } from '../adcp/signal.js'
import type { Action } from '../store/records/ledger.js'
import { mayOverlap, readDeployments, readKey } from './destination.js'

type Payload = Readonly<Record<string, unknown>>

type Told = {
  deployments: Deployment[]
  /** Requested destinations of which nothing was said. */
  unknown: Destination[]
}

/** What answers are wrapped in. */
const WRAPPERS = ['result', 'task', 'response', 'data', 'output', 'structuredContent'] as const
const LISTS = ['artifacts', 'parts'] as const
const DEEPEST = 6
const WIDEST = 20 // of a list the last ones: an artifact grows at its end

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

/** Before 3.0 an answer was about its one destination, and its key stood in the answer itself. */
function keyed(payload: Payload, destinations: readonly Destination[]): Deployment[] {
  const [only, another] = destinations
  const activation_key = readKey(payload)
  return only && !another && activation_key ? [{ ...only, is_live: true, activation_key }] : []
}

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

/** What others call the states of a task: A2A 0.3 and 1.0, and releases before 3.0. */
const STATES: Readonly<Record<string, string>> = {
  cancelled: 'canceled',
  deployed: 'completed',
  pending: 'submitted',
  processing: 'working',
}

/** How a task stands, in the protocol's words; undefined when nothing says so. */
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

/** The members of an answer or a result that tell it. */
export function toldFields({ deployments, unknown }: Told): Record<string, unknown> {
  return { deployments, ...(unknown.length > 0 && { ext: { tributary: { unknown } } }) }
}

// the newest entries for one segment, of all callers: what is on is among them

/** What is kept of an activation's answer. Deployments hold their keys: who may see them is decided at each answer. */
export type Activated = {
  action: Action
  deployments: Deployment[]
  /** Requested destinations of which the upstream said nothing; absent in what an earlier release wrote. */
  unknown?: Destination[]
  taskId?: string
  upstreamTaskId?: string
}
