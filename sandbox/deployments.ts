/**
 * Where an agent of the demo market delivers a signal and what targets it there (specification, "Deployment",
 * "ActivationKey"): live from the start by chance, changed by what was activated since.
 */
import type { ActivationKey, Deployment, Destination } from '../src/adcp/signal.js'
import type { Market, MarketSignal } from './market.js'
import type { Desk, Profile } from './profiles.js'

/** A desk and the seat there that was asked for. */
export type Stop = { desk: number; account: string | undefined }

/** What activations changed for one signal: desk number to live or not. */
export type Switched = ReadonlyMap<number, boolean>

function keyOf(profile: Profile, desk: Desk, signal: MarketSignal): ActivationKey {
  const code = `${profile.handlePrefix.replaceAll(/\W/g, '')}${signal.index.toString(36)}`
  if (desk.key === 'segment_id') return { type: 'segment_id', segment_id: `${code}_${desk.minutes}` }
  return { type: 'key_value', key: 'aud', value: code }
}

/** A desk without a seat of its own delivers to every seat there. */
function delivers({ destination }: Desk, wanted: Destination): boolean {
  const { account } = wanted
  if (destination.account !== undefined && account !== undefined && account !== destination.account)
    return false
  if (destination.type === 'platform')
    return wanted.type === 'platform' && wanted.platform === destination.platform
  return wanted.type === 'agent' && wanted.agent_url === destination.agent_url
}

/** Where the agent delivers to a destination, a desk for that very seat first; undefined when it does not. */
export function stopFor({ desks }: Profile, wanted: Destination): Stop | undefined {
  const able = desks.filter((desk) => delivers(desk, wanted))
  const best = able.find(({ destination }) => destination.account === wanted.account) ?? able[0]
  return best && { desk: desks.indexOf(best), account: wanted.account ?? undefined }
}

/** One desk's deployment of a signal, live or not. */
export function deploymentAt(
  profile: Profile,
  signal: MarketSignal,
  { desk: number, account }: Stop,
  live: boolean,
): Deployment {
  const desk = profile.desks[number] as Desk
  const where = { ...desk.destination, ...(account !== undefined && { account }) }
  if (live) return { ...where, is_live: true, activation_key: keyOf(profile, desk, signal) }
  return { ...where, is_live: false, estimated_activation_duration_minutes: desk.minutes }
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
    const stop = { desk: number, account: undefined }
    return deploymentAt(profile, signal, stop, switched?.get(number) ?? atStart)
  })
}
