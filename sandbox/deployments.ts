/**
 * Where an agent of the demo market delivers a signal and what targets it there (specification, "Deployment",
 * "ActivationKey"): live from the start by chance, changed by what was activated since.
 */
import type { ActivationKey, Deployment, Destination } from '../src/adcp/signal.js'
import type { Market, MarketSignal } from './market.js'
import type { Desk, Profile } from './profiles.js'

/** What activations changed for one signal: desk number to live or not. */
export type Switched = ReadonlyMap<number, boolean>

function keyOf(profile: Profile, desk: Desk, signal: MarketSignal): ActivationKey {
  const code = `${profile.handlePrefix.replaceAll(/\W/g, '')}${signal.index.toString(36)}`
  if (desk.key === 'segment_id') return { type: 'segment_id', segment_id: `${code}_${desk.minutes}` }
  return { type: 'key_value', key: 'aud', value: code }
}

function delivers(desk: Desk, wanted: Destination): boolean {
  const { destination } = desk
  if (wanted.account !== undefined && wanted.account !== destination.account) return false
  if (destination.type === 'platform')
    return wanted.type === 'platform' && wanted.platform === destination.platform
  return wanted.type === 'agent' && wanted.agent_url === destination.agent_url
}

/** The number of the desk that delivers to a destination, or undefined when the agent does not. */
export function deskFor(profile: Profile, wanted: Destination): number | undefined {
  const found = profile.desks.findIndex((desk) => delivers(desk, wanted))
  return found < 0 ? undefined : found
}

/** One desk's deployment of a signal, live or not. */
export function deploymentAt(
  profile: Profile,
  signal: MarketSignal,
  number: number,
  live: boolean,
): Deployment {
  const desk = profile.desks[number] as Desk
  if (live) return { ...desk.destination, is_live: true, activation_key: keyOf(profile, desk, signal) }
  return { ...desk.destination, is_live: false, estimated_activation_duration_minutes: desk.minutes }
}

/** All of an agent's deployments of a signal. */
export function deploymentsOf(
  market: Market,
  profile: Profile,
  signal: MarketSignal,
  switched: Switched | undefined,
): Deployment[] {
  return profile.desks.map((desk, number) => {
    const atStart = market.chance(signal.index, `${profile.handlePrefix}${number}`) < desk.live
    return deploymentAt(profile, signal, number, switched?.get(number) ?? atStart)
  })
}
