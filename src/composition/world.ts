/**
 * Everything a feed is made from, as one world with one revision that only grows: who is in the roster, what every scope
 * holds, what providers say, the policy, the callers' accounts. Whatever changes raises the revision; whoever builds
 * takes the world whole, between two changes and never during one.
 */
import { isDeepStrictEqual } from 'node:util'
import { providerDomain } from '../authz/provider/domain.js'
import type { Providers } from '../authz/provider/providers.js'
import { type PolicySettings, policyFor } from '../authz/rules/policy.js'
import type { ProviderState } from '../authz/state.js'
import type { Gap } from '../feed/gap.js'
import type { Clock } from '../net/clock.js'
import type { Holding } from '../upstreams/mirror/runner.js'
import { PUBLIC } from '../upstreams/mirror/scope-setting.js'
import type { RosterEntry } from '../upstreams/roster/roster.js'
import { PARTS, type Slice } from '../upstreams/rows/slice.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import type { Account, AccountMap } from './accounts.js'

/** What one snapshot is made of, and what it will lack. */
export type Layer = {
  slices: readonly Slice[]
  gaps: readonly Gap[]
}

/** The world at one moment. */
export type World = {
  revision: number
  open: Layer
  /** Accounts that are not simply answered from the public layer, by name. Without slices of its own: only with its gaps. */
  accounts: ReadonlyMap<string, Layer & { hasOwn: boolean }>
  /** Whether an account is defined now as it was then. */
  isCurrent(account: string): boolean
  providers: readonly ProviderState[]
  policy: PolicySettings
}

export type WorldsOptions = {
  upstreams: Upstreams
  providers: Providers
  policy(): PolicySettings
  accounts(): AccountMap
  clock: Clock
}

export type Worlds = ReturnType<typeof createWorlds>

/** Providers whose files nobody has seen yet and whose signals are withheld until somebody has. */
function unread(states: readonly ProviderState[], policy: PolicySettings): Set<string> {
  return new Set(
    states
      .filter(({ document, problem }) => !document && !problem)
      .map(({ domain }) => domain)
      .filter((domain) => policyFor(policy, domain) === 'strict'),
  )
}

function partGaps({ agentUrl, slice }: Holding): Gap[] {
  const outages = slice?.outages ?? {}
  return PARTS.filter((part) => outages[part] === 0).map((part) => ({ kind: 'part', agentUrl, part }))
}

function providerGap({ upstream, agentUrl, domains }: Holding, waiting: ReadonlySet<string>): Gap[] {
  if (waiting.size === 0) return []
  const named = domains.filter((domain) => waiting.has(providerDomain(domain) ?? domain))
  return named.length > 0 ? [{ kind: 'provider', agentUrl, upstream, domains: named }] : []
}

/** One layer of what these holdings give to it, one an upstream. */
function layerOf(
  roster: readonly RosterEntry[],
  holdings: ReadonlyMap<string, Holding>,
  waiting: ReadonlySet<string>,
) {
  const given = roster.flatMap(({ agentUrl }) => {
    const holding = holdings.get(agentUrl)
    return holding?.slice ? [{ ...holding, slice: holding.slice }] : []
  })
  const carried = new Set(given.map(({ agentUrl }) => agentUrl))
  const gaps: Gap[] = [{ kind: 'others', carried }]
  gaps.push(...given.flatMap((holding) => [...providerGap(holding, waiting), ...partGaps(holding)]))
  return { slices: given.map(({ slice }) => slice), gaps }
}

export function createWorlds({ upstreams, providers, policy, accounts, clock }: WorldsOptions) {
  const listeners = new Set<() => void>()
  let revision = 0
  let movedAt: number | undefined // first change since the world was taken last
  let telling = false

  /** Listeners look at the world: not before whoever moves it has finished. */
  function tell(): void {
    telling = false
    providers.want(upstreams.providerDomains())
    for (const listener of listeners) listener()
  }

  /** Something that a feed is made from is another thing now. */
  function moved(): void {
    revision += 1
    movedAt ??= clock.now()
    if (!telling) queueMicrotask(tell)
    telling = true
  }

  function accountLayer(
    { name, upstreams: wanted }: Account,
    roster: readonly RosterEntry[],
    open: ReadonlyMap<string, Holding>,
    own: ReadonlyMap<string, Holding>,
    waiting: ReadonlySet<string>,
  ): [string, Layer & { hasOwn: boolean }][] {
    const read = roster.filter(({ agentUrl }) => wanted.has(agentUrl))
    const unconfirmed = read.filter(({ agentUrl }) => {
      const holding = own.get(agentUrl)
      return !holding?.slice && !holding?.rateCard
    })
    const mine = [...own].filter(([, { slice }]) => slice)
    if (mine.length === 0 && unconfirmed.length === 0) return []
    const { slices, gaps } = layerOf(roster, new Map([...open, ...mine]), waiting)
    const unread = unconfirmed.map(({ agentUrl }): Gap => ({ kind: 'account', agentUrl }))
    return [[name, { slices, gaps: [...gaps, ...unread], hasOwn: mine.length > 0 }]]
  }

  /** The world as it is now. */
  function current(): World {
    movedAt = undefined
    providers.want(upstreams.providerDomains()) // rows that came in this very moment may name new ones
    const then = accounts()
    const roster = upstreams.roster().entries
    const states = providers.states()
    const waiting = unread(states, policy())
    const byScope = new Map<string, Map<string, Holding>>()
    for (const holding of upstreams.holdings()) {
      const { scope, agentUrl } = holding
      byScope.set(scope, (byScope.get(scope) ?? new Map()).set(agentUrl, holding))
    }
    const open = byScope.get(PUBLIC) ?? new Map()
    return {
      revision,
      open: layerOf(roster, open, waiting),
      accounts: new Map(
        [...then.values()].flatMap((account) =>
          accountLayer(account, roster, open, byScope.get(account.name) ?? new Map(), waiting),
        ),
      ),
      isCurrent: (name) => then === accounts() || isDeepStrictEqual(then.get(name), accounts().get(name)),
      providers: states,
      policy: policy(),
    }
  }

  return {
    moved,
    revision: () => revision,
    /** When the first change happened that no world shows which was taken, ms since the epoch. */
    movedAt: () => movedAt,
    current,
    /** Called after the world has moved, once for all that moved in one step. */
    onMove(listener: () => void): void {
      listeners.add(listener)
    },
  }
}
