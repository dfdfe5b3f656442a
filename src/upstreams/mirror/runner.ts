/**
 * Looks after one upstream: the contact to it and every scope that is read from it. Its troubles stay its own: the only thing
 * that it shares with other upstreams is the total number of calls. Agents that left the roster, or were taken out of it, are
 * not read any more, but what was activated there can be switched off: a caller with such an agent's canonical url can still
 * call it, through the same egress guard.
 */
import { isDeepStrictEqual } from 'node:util'
import { LRUCache } from 'lru-cache'
import { canonicalUrl } from '../../adcp/url.js'
import type { Clock } from '../../net/clock.js'
import type { Send } from '../../net/send.js'
import type { Signer } from '../../signing/signature.js'
import type { AgentOutcome, Arguments } from '../agent/agent.js'
import { type RosterEntry, type StaticUpstream, unlistedEntry } from '../roster/roster.js'
import { placesOf } from '../rows/registry-records.js'
import type { Slice } from '../rows/slice.js'
import { type Contact, createContact, type UpstreamCall } from '../walk/contact.js'
import { createAsked } from '../walk/enumerate.js'
import type { Slots } from '../walk/governor.js'
import type { LearntStore } from '../walk/learnt.js'
import { turnOf } from './readings.js'
import { createScope, type KeptScope, type ScopeOptions } from './scope.js'
import { type Pace, PUBLIC, type Scope } from './scope-setting.js'
import type { ScopeStatus } from './scope-status.js'

const EVERYBODY: Scope = { name: PUBLIC }
const MOST_UNLISTED = 64

/** The settings of one upstream; new ones can be applied while it runs. */
export type RunnerSetting = {
  entry: RosterEntry
  pace: Pace
  /** Our own account, for agents that require one of everybody. */
  introduction: Arguments
  /** Whether questions of buyers are asked again at an agent without a feed. */
  seedsFromBriefs: boolean
  /** Calls under way at once. */
  concurrency: number
  /** Scopes besides the public one. */
  scopes: readonly Scope[]
}

type RunnerOptions = Omit<ScopeOptions, 'setting' | 'open' | 'onChange' | 'asked'> & {
  setting: RunnerSetting
  send: Send
  sign?: Signer
  slotsFor(concurrency: number): Slots
  learnt: LearntStore
  clock: Clock
  /** Called when what one of its scopes holds has changed or is gone. */
  onChange(): void
}

/** What one scope of one upstream contributes to a feed. */
export type Holding = {
  upstream: string
  agentUrl: string
  scope: string
  /** Its own rows; absent when it holds none, or the rate card applies. */
  slice?: Slice
  /** The upstream says that this account has the public rate card. */
  rateCard: boolean
  /** Domains of the providers whose files decide on the rows. */
  domains: readonly string[]
}

/** Settings whose names differ need another contact. */
function contactName({ entry }: RunnerSetting): string {
  const { agentUrl, protocol, auth, accountPrices } = entry
  return JSON.stringify([agentUrl, protocol, auth, accountPrices])
}

/** Calls can be made at once; scopes are read from `start` on. */
export function createRunner(options: RunnerOptions) {
  const { send, sign, slotsFor, learnt, clock, random, governor, turns, onChange } = options
  let setting = options.setting
  let slots = slotsFor(setting.concurrency)
  let contact = contactFor(setting)
  let started = false
  const asked = createAsked()
  const scopes = new Map<string, KeptScope>()
  const open = added(EVERYBODY)
  for (const scope of setting.scopes) added(scope)

  const closeScopes = () => Promise.all([...scopes.values()].map((kept) => kept.close()))

  function contactFor({ entry }: RunnerSetting): Contact {
    return createContact({
      entry,
      send,
      ...(sign && { sign }),
      slots: (budget, run) => slots(budget, run),
      timeoutMs: () => setting.pace.timeoutMs,
      limits: governor.limits,
      ...{ clock, random, learnt },
      onDialect: onChange,
      onBroken: () => open.probeSoon(),
      isReader: () => turns.turn(turnOf(setting.entry.agentUrl)) !== undefined,
      nextReadingAt: () => open.nextAttemptAt(),
    })
  }

  function settingOf(scope: Scope) {
    const { entry, pace, introduction } = setting
    return { scope, entry, pace, introduction, contact }
  }

  function added(scope: Scope): KeptScope {
    const kept = createScope({ ...options, asked, setting: settingOf(scope), open: () => open.held()?.slice })
    scopes.set(scope.name, kept)
    return kept
  }

  /** Applies other settings. What they do not change continues: slices, connections, schedules. */
  function update(next: RunnerSetting): Promise<void>[] {
    const before = setting
    setting = next
    if (!next.seedsFromBriefs) asked.clear()
    if (next.concurrency !== before.concurrency) slots = slotsFor(next.concurrency)
    if (contactName(next) !== contactName(before) || !contact.takePlaces(placesOf(next.entry))) {
      contact.close()
      contact = contactFor(next)
      asked.clear()
    }
    const work: Promise<void>[] = []
    const wanted = new Map([EVERYBODY, ...next.scopes].map((scope) => [scope.name, scope]))
    for (const [name, kept] of scopes) {
      const scope = wanted.get(name)
      if (scope) {
        kept.update(settingOf(isDeepStrictEqual(scope, kept.scope()) ? kept.scope() : scope))
      } else {
        scopes.delete(name)
        work.push(kept.close())
        onChange()
      }
    }
    for (const [name, scope] of wanted) {
      if (scopes.has(name)) continue
      const kept = added(scope)
      if (started) work.push(kept.start())
    }
    return work
  }

  /** Questions for an account, or with a caller's own credential, stay private to that caller. */
  function note(task: string, { signal_spec: question, account }: Arguments, { auth }: UpstreamCall): void {
    const isOpen = task === 'get_signals' && account === undefined && auth === undefined
    const isWanted = setting.seedsFromBriefs && open.held()?.slice.mode === 'enumerated'
    if (isOpen && isWanted && typeof question === 'string') asked.note(question)
  }

  /**
   * Providers whose files decide on the rows of a scope. For an agent without a feed they include those that it
   * declares, because their files say what it can be asked for.
   */
  function domainsOf(kept: KeptScope): readonly string[] {
    const { slice, domains = [] } = kept.held() ?? {}
    const declared = kept === open && slice?.mode !== 'wholesale' ? contact.providerDomains() : []
    return declared.length === 0 ? domains : [...new Set([...domains, ...declared])]
  }

  function holdingOf(kept: KeptScope): Holding {
    const { id: upstream, agentUrl } = setting.entry
    const held = kept.held()
    const rateCard = kept.isRateCard()
    return {
      ...{ upstream, agentUrl, scope: kept.scope().name, rateCard },
      ...(held && !rateCard && { slice: held.slice }),
      domains: domainsOf(kept),
    }
  }

  return {
    entry: () => setting.entry,
    /** Loads what an earlier process kept, then keeps it current. */
    async start(): Promise<void> {
      started = true
      await Promise.all([...scopes.values()].map((kept) => kept.start()))
    },
    update,
    /** What the public scope holds. */
    slice: (): Slice | undefined => open.held()?.slice,
    /** The public one first. */
    holdings: (): Holding[] => [...scopes.values()].map(holdingOf),
    /** Reads the public scope again, and those of a caller. */
    refreshSoon(caller: string | undefined): void {
      for (const kept of scopes.values()) {
        const { name, caller: whose } = kept.scope()
        if (name === PUBLIC || (caller !== undefined && whose === caller)) kept.refreshSoon()
      }
    },
    /**
     * The upstream reported a change: reads every scope soon. Returns by how many ms this is sooner than scheduled, and for
     * how many scopes a reading was coming already.
     */
    heard(): { gainedMs: number; spared: number } {
      const { nextAttemptAt = clock.now() } = open.status()
      const spared = [...scopes.values()].filter((kept) => kept.refreshSoon() === 'coming').length
      return { gainedMs: Math.max(0, nextAttemptAt - clock.now()), spared }
    },
    livesByQuestions: () => open.livesByQuestions(),
    questionsMoved: (isNews: () => Promise<boolean>) => open.questionsMoved(isNews),
    /** This process has become responsible for some scopes, or no longer is. */
    turnsChanged(): void {
      for (const kept of scopes.values()) kept.turnsChanged()
    },
    /** Resolves when the rows that other processes told of so far are loaded, or cannot be for now. */
    async loaded(): Promise<void> {
      await Promise.all([...scopes.values()].map((kept) => kept.loaded()))
    },
    /** Reads all scopes completely again, as if no token were held. */
    refreshWhole(): void {
      for (const kept of scopes.values()) kept.refreshWhole()
    },
    async call(task: string, args: Arguments, call: UpstreamCall): Promise<AgentOutcome> {
      const outcome = await contact.call(task, args, call)
      if (outcome.kind === 'answer' && outcome.rows.elements > 0) note(task, args, call)
      return outcome
    },
    /** What is known of its dialect, without asking it. */
    dialect: () => contact.knownDialect(),
    status: (): ScopeStatus => open.status(),
    /** Of the accounts that are read from it. */
    accountStatuses: (): ScopeStatus[] =>
      [...scopes.values()].filter((kept) => kept !== open).map((kept) => kept.status()),
    statusOf: (scope: string): ScopeStatus | undefined => scopes.get(scope)?.status(),
    /** Whose files decide on its rows. */
    providerDomains: (): readonly string[] => [...new Set([...scopes.values()].flatMap(domainsOf))],
    /** Aborts the readings under way; calls go on to their end. The saved slices are kept. */
    async close(): Promise<void> {
      contact.close()
      await closeScopes()
    },
    /** The same, when nothing goes on any more: also calls that were not sent yet end. */
    async end(): Promise<void> {
      contact.end()
      await closeScopes()
    },
  }
}

export type Runner = ReturnType<typeof createRunner>

/** Runners of agents that are in no roster. `make` creates one, which is never started. */
export function createUnlisted(make: (entry: RosterEntry) => Runner) {
  const runners = new LRUCache<string, Runner>({
    max: MOST_UNLISTED,
    dispose: (runner) => void runner.close(),
  })

  return {
    /** Undefined when it is not a canonical url. */
    at(agentUrl: string, statics: readonly StaticUpstream[]): Runner | undefined {
      if (canonicalUrl(agentUrl) !== agentUrl) return undefined
      const runner = runners.get(agentUrl) ?? make(unlistedEntry(agentUrl, statics))
      runners.set(agentUrl, runner)
      return runner
    },
    /** Lets go of all of them. */
    clear: () => runners.clear(),
  }
}
