/**
 * Destinations and deployments side by side: what serves what, and what a caller may see of it
 * (specification, "Deployment", "Rules for destinations" 3).
 */
import type { ActivationKey, Deployment, Destination } from '../adcp/signal.js'
import { canonicalUrl } from '../adcp/url.js'

/** Platform or agent without the account; undefined for an agent url that equals no other (FACTS 6). */
function place(target: Destination | Deployment): string | undefined {
  if (target.type === 'platform') return `platform ${target.platform}`
  const url = canonicalUrl(target.agent_url)
  return url && `agent ${url}`
}

/** Whether two name the same place. An account that only one of them names does not tell them apart. */
export function meets(one: Destination | Deployment, other: Destination | Deployment): boolean {
  const at = place(one)
  if (at === undefined || at !== place(other)) return false
  return one.account === undefined || other.account === undefined || one.account === other.account
}

/** Where a deployment is, without its state. */
export function toDestination(deployment: Deployment): Destination {
  const { account } = deployment
  const at = account === undefined ? {} : { account }
  return deployment.type === 'platform'
    ? { type: 'platform', platform: deployment.platform, ...at }
    : { type: 'agent', agent_url: deployment.agent_url, ...at }
}

/** Whether a grant lets its holder see keys of the deployment; a grant of one account is for that account only. */
function grants(grant: Destination, deployment: Deployment): boolean {
  return meets(grant, deployment) && (grant.account === undefined || grant.account === deployment.account)
}

/** The deployments with keys only where they are live and the caller has a grant. */
export function visibleDeployments(
  deployments: readonly Deployment[],
  held: readonly Destination[],
): Deployment[] {
  return deployments.map((deployment) => {
    if (deployment.is_live && held.some((grant) => grants(grant, deployment))) return deployment
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
