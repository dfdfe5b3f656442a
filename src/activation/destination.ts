/**
 * Compares destinations with deployments: which one serves which, and what a caller may see of it (specification,
 * "Deployment", "Rules for destinations" 3).
 */
import type { ActivationKey, Deployment, Destination } from '../adcp/signal.js'
import { destinationKey, matchesDestination } from '../merge/deployments.js'

/**
 * Whether two requests can affect the same deployment. An account that only one of them names does not separate them.
 */
export function mayOverlap(one: Destination, other: Destination): boolean {
  const key = destinationKey(one)
  const otherKey = destinationKey(other)
  if (key === undefined || otherKey === undefined) return false
  return matchesDestination(key, otherKey) || matchesDestination(otherKey, key)
}

function isGranted(deployment: Deployment, held: readonly Destination[]): boolean {
  const key = destinationKey(deployment)
  if (key === undefined) return false
  return held.map(destinationKey).some((grant) => grant !== undefined && matchesDestination(key, grant))
}

/** The deployments, with keys only on live ones and when the caller has a grant. */
export function visibleDeployments(
  deployments: readonly Deployment[],
  held: readonly Destination[],
): Deployment[] {
  return deployments.map((deployment) => {
    if (deployment.is_live && isGranted(deployment, held)) return deployment
    const { activation_key: _, ...rest } = deployment
    return rest
  })
}

const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= 2_048

/** The key of a deployment, or of an answer about one. Before 3.0 it was a plain segment id. */
export function readKey({
  activation_key: current,
  decisioning_platform_segment_id: legacy,
}: Readonly<Record<string, unknown>>): ActivationKey | undefined {
  if (isText(legacy) && current === undefined) return { type: 'segment_id', segment_id: legacy }
  if (typeof current !== 'object' || current === null) return undefined
  const { type, segment_id, key, value: content } = current as Record<string, unknown>
  if (type === 'segment_id' && isText(segment_id)) return { type, segment_id }
  if (type === 'key_value' && isText(key) && isText(content)) return { type, key, value: content }
  return undefined
}

function readDeployment(value: unknown): Deployment | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const row = value as Record<string, unknown>
  const minutes = row.estimated_activation_duration_minutes
  const given = readKey(row)
  const is_live = row.is_live ?? (given ? true : undefined) // only a live deployment has a key (schema core/deployment)
  if (typeof is_live !== 'boolean') return undefined
  const key = is_live ? given : undefined
  const state = {
    ...(isText(row.account) && { account: row.account }),
    is_live,
    ...(key && { activation_key: key }),
    ...(typeof minutes === 'number' && minutes >= 0 && { estimated_activation_duration_minutes: minutes }),
    ...(isText(row.deployed_at) &&
      !Number.isNaN(Date.parse(row.deployed_at)) && { deployed_at: row.deployed_at }),
  }
  const type = row.type ?? (isText(row.platform) ? 'platform' : 'agent') // before 3.0 the type could be left out
  if (type === 'platform' && isText(row.platform)) {
    return { type: 'platform', platform: row.platform, ...state }
  }
  if (type === 'agent' && isText(row.agent_url)) {
    return { type: 'agent', agent_url: row.agent_url, ...state }
  }
  return undefined
}

/**
 * The deployments in an upstream's answer: known fields only, and a key only on a live one. A deployment without a
 * state is left out.
 */
export function readDeployments(value: unknown): Deployment[] {
  return Array.isArray(value) ? value.flatMap((row) => readDeployment(row) ?? []) : []
}

/** A result's signals with keys only where the caller has a grant now. */
export function shownSignals(result: unknown, grants: readonly Destination[]): unknown {
  const { signals } = (result ?? {}) as { signals?: readonly { deployments?: readonly Deployment[] }[] }
  if (!Array.isArray(signals)) return result
  const shown = signals.map((row) =>
    Array.isArray(row.deployments)
      ? { ...row, deployments: visibleDeployments(row.deployments, grants) }
      : row,
  )
  return { ...(result as object), signals: shown }
}
