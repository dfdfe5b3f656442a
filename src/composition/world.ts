/**
 * Everything a feed is made from, as one world with one growing revision: who is in the roster, what every scope holds,
 * what providers say, the policy, the callers' accounts. Every change raises the revision; a build takes the whole
 * world between two changes, never during one.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Providers } from '../authz/provider/providers.js'
import {
  type PolicySettings,
  type ProviderState,
  policyFor,
  type Undecided,
  undecided,
} from '../authz/rules/verdict.js'
import type { Gap } from '../feed/query.js'
import type { Clock } from '../net/clock.js'
import type { Holding } from '../upstreams/mirror/runner.js'
import { PUBLIC } from '../upstreams/mirror/scope-setting.js'
import type { RosterEntry } from '../upstreams/roster/roster.js'
import { PARTS, type Slice } from '../upstreams/rows/slice.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import type { Account, AccountMap } from './settings.js'

/** What one snapshot is made of, and what it will lack. */
type Layer = {
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
  /** The moment that the build describes, ms since the epoch. */
  now: number
}

type WorldsOptions = {
  upstreams: Upstreams
  providers: Providers
  policy(): PolicySettings
  accounts(): AccountMap
  clock: Clock
}

export type Worlds = ReturnType<typeof createWorlds>

type Waiting = (name: string) => { domain: string; reason: Undecided } | undefined

function partGaps({ agentUrl, slice }: Holding): Gap[] {
  const outages = slice?.outages ?? {}
  return PARTS.flatMap((part): Gap[] => {
    const at = outages[part]
    return at === undefined ? [] : [{ kind: 'part', agentUrl, part, ...(at > 0 && { stands: true }) }]
  })
}

/** Rows that are withheld although there is no verdict on them yet, by reason; `waitFor` tells that of a name in the rows. */
function providerGaps({ upstream, agentUrl, domains }: Holding, waitFor: Waiting): Gap[] {
  const named = new Map<Undecided, Set<string>>()
  for (const name of domains) {
    const wait = waitFor(name)
    if (wait) named.set(wait.reason, (named.get(wait.reason) ?? new Set()).add(wait.domain))
  }
  return [...named].map(([reason, of]) => ({
    kind: 'provider',
    agentUrl,
    upstream,
    reason,
    domains: [...of],
  }))
}

/** One layer of what these holdings give to it, one an upstream. */
function layerOf(
  roster: readonly RosterEntry[],
  holdings: ReadonlyMap<string, Holding>,
  gapsOf: (holding: Holding) => readonly Gap[],
) {
  const given = roster.flatMap(({ agentUrl }) => {
    const holding = holdings.get(agentUrl)
    return holding?.slice ? [{ ...holding, slice: holding.slice }] : []
  })
  const carried = new Set(given.map(({ agentUrl }) => agentUrl))
  const gaps: Gap[] = [{ kind: 'others', carried }]
  gaps.push(...given.flatMap(gapsOf))
  return { slices: given.map(({ slice }) => slice), gaps }
}

/** What the layers of all accounts begin from: who is read from, and what each gives to everybody and what its rows lack. */
type Public = {
  roster: readonly RosterEntry[]
  open: ReadonlyMap<string, Holding>
  gapsOf(holding: Holding): readonly Gap[]
}

export function createWorlds({ upstreams, providers, policy, accounts, clock }: WorldsOptions) {
  const listeners = new Set<() => void>()
  let revision = 0
  let movedAt: number | undefined // first change since the world was last taken
  let telling = false

  /** Listeners look at the world only after the change is complete. */
  function tell(): void {
    telling = false
    providers.want(upstreams.providerDomains())
    for (const listener of listeners) listener()
  }

  /** Something that a feed is made from has changed. */
  function moved(): void {
    revision += 1
    movedAt ??= clock.now()
    if (!telling) queueMicrotask(tell)
    telling = true
  }

  /** What the rows of a holding lack; one that is part of many layers is looked at once. */
  function gapsAt(now: number, states: readonly ProviderState[]): (holding: Holding) => readonly Gap[] {
    const known = new Map<Holding, readonly Gap[]>()
    const settings = policy()
    const isWell = states.every((state) => undecided(state, now) === undefined)
    const waitFor: Waiting = (name) => {
      const state = providers.state(name) ?? { domain: name }
      const reason = undecided(state, now)
      const isWithheld = policyFor(settings, state.domain) === 'strict'
      return reason && isWithheld ? { domain: state.domain, reason } : undefined
    }
    return (holding) => {
      const found = known.get(holding) ?? [
        ...(isWell ? [] : providerGaps(holding, waitFor)),
        ...partGaps(holding),
      ]
      known.set(holding, found)
      return found
    }
  }

  /** Nothing for an account that is simply answered from the public layer. `open`: what everybody gets. */
  function accountLayer(
    { name, upstreams: wanted }: Account,
    { roster, open, gapsOf }: Public,
    own: ReadonlyMap<string, Holding>,
  ): [string, Layer & { hasOwn: boolean }][] {
    const read = roster.filter(({ agentUrl }) => wanted.has(agentUrl))
    const unconfirmed = read.filter(({ agentUrl }) => {
      const holding = own.get(agentUrl)
      return !holding?.slice && !holding?.rateCard
    })
    const mine = [...own].filter(([, { slice }]) => slice)
    if (mine.length === 0 && unconfirmed.length === 0) return []
    const { slices, gaps } = layerOf(roster, new Map([...open, ...mine]), gapsOf)
    const unread = unconfirmed.map(({ agentUrl }): Gap => ({ kind: 'account', agentUrl }))
    return [[name, { slices, gaps: [...gaps, ...unread], hasOwn: mine.length > 0 }]]
  }

  /** The world as it is now. */
  function current(): World {
    movedAt = undefined
    providers.want(upstreams.providerDomains()) // rows that have just arrived may name new providers
    const then = accounts()
    const roster = upstreams.roster().entries
    const states = providers.states()
    const now = clock.now()
    const gapsOf = gapsAt(now, states)
    const byScope = new Map<string, Map<string, Holding>>()
    for (const holding of upstreams.holdings()) {
      const { scope, agentUrl } = holding
      byScope.set(scope, (byScope.get(scope) ?? new Map()).set(agentUrl, holding))
    }
    const open = byScope.get(PUBLIC) ?? new Map()
    return {
      revision,
      open: layerOf(roster, open, gapsOf),
      accounts: new Map(
        [...then.values()].flatMap((account) =>
          accountLayer(account, { roster, open, gapsOf }, byScope.get(account.name) ?? new Map()),
        ),
      ),
      isCurrent: (name) => then === accounts() || isDeepStrictEqual(then.get(name), accounts().get(name)),
      providers: states,
      policy: policy(),
      now,
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
