/**
 * Destinations and deployments side by side: what serves what, and what a caller may see of it
 * (specification, "Deployment", "Rules for destinations" 3).
 */
import type { ActivationKey, Deployment, Destination } from '../adcp/signal.js'
import { destinationKey, matchesDestination } from '../merge/deployments.js'

/** Whether two requests can bear on the same deployment: an account that only one of them names tells nothing apart. */
export function overlap(one: Destination, other: Destination): boolean {
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

/** The deployments with keys only where they are live and the caller has a grant. */
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

function readKey(value: unknown): ActivationKey | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { type, segment_id, key, value: content } = value as Record<string, unknown>
  if (type === 'segment_id' && isText(segment_id)) return { type, segment_id }
  if (type === 'key_value' && isText(key) && isText(content)) return { type, key, value: content }
  return undefined
}

function readDeployment(value: unknown): Deployment | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const row = value as Record<string, unknown>
  const minutes = row.estimated_activation_duration_minutes
  const key = row.is_live === true ? readKey(row.activation_key) : undefined
  const state = {
    ...(isText(row.account) && { account: row.account }),
    is_live: row.is_live === true,
    ...(key && { activation_key: key }),
    ...(typeof minutes === 'number' && minutes >= 0 && { estimated_activation_duration_minutes: minutes }),
    ...(isText(row.deployed_at) &&
      !Number.isNaN(Date.parse(row.deployed_at)) && { deployed_at: row.deployed_at }),
  }
  if (row.type === 'platform' && isText(row.platform)) {
    return { type: 'platform', platform: row.platform, ...state }
  }
  if (row.type === 'agent' && isText(row.agent_url)) {
    return { type: 'agent', agent_url: row.agent_url, ...state }
  }
  return undefined
}

/** The deployments of an upstream's answer: known fields only, a key only on a live one; others are left out. */
export function readDeployments(value: unknown): Deployment[] {
  return Array.isArray(value) ? value.flatMap((row) => readDeployment(row) ?? []) : []
}

/** The requested destinations as deployments that are not live, for an answer that has no better. */
export function notLiveYet(destinations: readonly Destination[]): Deployment[] {
  return destinations.map((destination) => ({ ...destination, is_live: false }))
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
