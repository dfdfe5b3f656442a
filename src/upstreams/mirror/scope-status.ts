/** How a scope is doing, for people and for answers. */
import { shownUrl } from '../../adcp/redaction.js'
import type { UpstreamFailure, UpstreamStatus } from '../agent/agent.js'
import { isDistrusted } from '../walk/spot-check.js'
import type { HeldSlice } from './mirror.js'
import { isRateCard, PUBLIC, type ScopeSetting } from './scope-setting.js'

/** How a scope is doing, in one word: the states of an upstream, and `empty` for a feed that was read and has no row. */
export type ScopeState = UpstreamStatus['state'] | 'empty'

export type Transition = {
  upstream: string
  scope: string
  from: ScopeState
  to: ScopeState
  rows: number
  reason?: UpstreamFailure
  /** What was tried, and what came back. */
  message?: string
}

export type ScopeStatus = UpstreamStatus & {
  scope: string
  /** The upstream says that this account is priced off what everybody is offered. */
  rateCard: boolean
}

/** What is not in the setting and not in what is held. */
type Doing = Pick<UpstreamStatus, 'state' | 'problem' | 'nextAttemptAt' | 'awaited'> & { now: number }

/** `held`: what is served of the scope now, if anything. */
export function statusOf(
  setting: ScopeSetting,
  held: HeldSlice | undefined,
  { now, ...doing }: Doing,
): ScopeStatus {
  const { scope, entry, contact } = setting
  const protocol = contact.protocol()
  const accountPrices =
    scope.name === PUBLIC ? contact.accountPrices(held?.cacheScope === 'account') : undefined
  return {
    id: entry.id,
    url: shownUrl(entry.url),
    agentUrl: entry.agentUrl,
    name: entry.name,
    scope: scope.name,
    rateCard: isRateCard(held, setting),
    listings: held?.slice.rows.count ?? 0,
    dropped: held?.slice.dropped ?? {},
    ...(protocol && { protocol }),
    ...(accountPrices && { accountPrices }),
    ...(held?.slice.outages && { outages: held.slice.outages }),
    ...(held?.slice.limitedAt !== undefined && { limitedAt: held.slice.limitedAt }),
    ...(held && isDistrusted(held.slice, now) && { caughtAt: held.slice.caughtAt }),
    ...(held && {
      mode: held.slice.mode,
      walkedAt: held.slice.walkedAt,
      confirmedAt: held.confirmedAt,
    }),
    ...doing,
  }
}
