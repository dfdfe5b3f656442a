/**
 * Every upstream that we read: who they are, their state, what they offer, and a way to call them. The rest of the
 * product knows upstreams only through this.
 */
import pLimit from 'p-limit'
import type { SignalRef } from '../adcp/signal.js'
import type { Clock } from '../net/clock.js'
import type { Send } from '../net/send.js'
import type { Signer } from '../signing/signature.js'
import { type AgentOutcome, type Arguments, callFailed, type UpstreamFailure } from './agent/agent.js'
import type { Dialect } from './agent/dialect.js'
import { createReadings, turnOf } from './mirror/readings.js'
import {
  createRunner,
  createUnlisted,
  type Holding,
  type Runner,
  type RunnerSetting,
} from './mirror/runner.js'
import { type Pace, PUBLIC, type Scope } from './mirror/scope-setting.js'
import type { ScopeStatus, Transition, UpstreamStatus } from './mirror/scope-status.js'
import { createSliceStore } from './mirror/slice-store.js'
import {
  createRegistries,
  type RegistryConfig,
  type RegistryStatus,
  type RegistryTransition,
} from './roster/registries.js'
import {
  listedOnlyBy,
  makeRoster,
  type Roster,
  type RosterEntry,
  type RosterPolicy,
  type StaticUpstream,
  unlistedEntry,
} from './roster/roster.js'
import type { Slice } from './rows/slice.js'
import { type Blobs, EVERY_TURN, type Sharing } from './rows/storage.js'
import type { UpstreamCall } from './walk/contact.js'
import { createGovernor, createSlots, READ_LIMITS, type ReadLimits } from './walk/governor.js'
import { createLearntStore } from './walk/learnt.js'

const SWEEPING = 'sweeping'
const notThere = (agentUrl: string) => callFailed('unknown_upstream', `no upstream ${agentUrl}`)
const LOADING = 4 // upstreams whose slices are read from disk at once

export type UpstreamsConfig = {
  registries: readonly RegistryConfig[]
  statics: readonly StaticUpstream[]
  policy: RosterPolicy
  limits?: ReadLimits
  /** Our own account, by its natural key: for agents that require an account of everybody. */
  account: Arguments
  /** Accounts of callers that are read besides the public scope, by the upstream's canonical url. */
  scopes?: ReadonlyMap<string, readonly Scope[]>
  defaults: Pace & {
    /** Calls under way to one upstream. */
    concurrency: number
    /** Whether questions of buyers are asked again at agents without a feed. Default: no. */
    seedsFromBriefs?: boolean
  }
}

export type UpstreamsOptions = {
  config: UpstreamsConfig
  send: Send
  /** Signs requests for agents that ask for it; absent: none is signed. */
  sign?: Signer
  blobs: Blobs
  /** How processes that share a storage divide the work. Absent when this one is alone. */
  sharing?: Sharing
  clock: Clock
  /** From 0 to 1, for jitter. */
  random(): number
  /** What providers published and authorized for this agent (canonical url): how brief-only agents are enumerated. */
  referencesFor(agentUrl: string): readonly SignalRef[] | Promise<readonly SignalRef[]>
  /** The providers' names for these signals: questions for agents without exact lookup. Absent: there are none. */
  namesFor?(agentUrl: string): readonly string[] | Promise<readonly string[]>
  /** Which upstreams of the roster are read, by id. Absent: all. */
  reads?(id: string): boolean
  /** Called when the state of an upstream's scope, or of a registry, has changed. */
  onTransition?(transition: Transition | RegistryTransition): void
  /** Receives messages about trouble with the disk; upstreams' own troubles are in `statuses`. */
  onTrouble(message: string): void
}

export type Upstreams = {
  /** Loads who is in the roster, before anything is read. `start` does it otherwise. */
  open(): Promise<void>
  /** Loads saved state and starts reading. Resolves when everything saved is in `slices`. */
  start(): Promise<void>
  roster(): Roster
  registries(): RegistryStatus[]
  /**
   * Registries that cannot be read now, with the ids of the upstreams that are only kept because of their last listing.
   */
  silentRegistries(): { url: string; reason?: UpstreamFailure; upstreams: readonly string[] }[]
  /** Of the public scopes, one per upstream. */
  statuses(): UpstreamStatus[]
  /** Of the accounts' scopes, of all upstreams. */
  accountStatuses(): ScopeStatus[]
  /** Of one account's scopes. */
  statusesOf(scope: string): ScopeStatus[]
  /** The public slices in use, by canonical agent url. The same object until `onChange`. */
  slices(): readonly Slice[]
  /** What every scope of every upstream holds. */
  holdings(): readonly Holding[]
  /** Resolves when the rows that other processes told of so far are loaded, or cannot be for now. */
  loaded(): Promise<void>
  /** Whether other processes find these slices, or newer ones: waits for what is being saved. */
  areFound(slices: readonly Slice[]): Promise<boolean>
  /**
   * Called after a change of the roster, of what a scope holds, or of provider domains. The call is synchronous, so
   * listeners must not look at the state before the code that changes it has finished. Returns a function that removes
   * the listener.
   */
  onChange(listener: () => void): () => void
  /** The id of an agent (canonical url) in the roster; its url when it is not in the roster. */
  idOf(agentUrl: string): string
  /** Whether calls of an agent (canonical url) go with a configured credential. */
  hasCredential(agentUrl: string): boolean
  /** Calls a task of an agent (canonical url) of the roster once. Arguments are cut to what its dialect knows. */
  ask(agentUrl: string, task: string, args: Arguments, options: UpstreamCall): Promise<AgentOutcome>
  /** Like `ask`, also of an agent that has left the roster: what is on there can still be switched off. */
  call(agentUrl: string, task: string, args: Arguments, options: UpstreamCall): Promise<AgentOutcome>
  /** Like `call`, of an agent (canonical url) as it is configured now, with its credentials. */
  callerOf(agentUrl: string): (task: string, args: Arguments, options: UpstreamCall) => Promise<AgentOutcome>
  /**
   * Refreshes an agent (canonical url) of the roster, with the caller's accounts there, after a caller activated something:
   * at most once a second, and less often when reading takes long.
   */
  refreshSoon(agentUrl: string, caller?: string): void
  /**
   * An upstream (canonical url) reported a change: it is read soon. Returns by how many ms this is sooner than
   * scheduled, and for how many scopes a reading was coming already.
   */
  heard(agentUrl: string): { gainedMs: number; spared: number }
  /**
   * A provider's file may have changed what agents without a feed can be asked for. Refreshes the agents (by canonical
   * url) that it `concerns` and for which it `isNews`, no more often than after activations.
   */
  questionsMoved(
    concerns: (agentUrl: string) => boolean,
    isNews: (agentUrl: string) => Promise<boolean>,
  ): void
  /** Reads an upstream completely now, whatever its tokens say; false when there is no such id. */
  refreshWhole(id: string): boolean
  /** The dialect of an agent (canonical url) of the roster, as far as it is known. */
  dialectOf(agentUrl: string): Dialect | undefined
  /** The memory of all rows together, and how often rows were dropped to stay within it. */
  memory(): { usedBytes: number; limitBytes: number; evictions: number }
  /** Provider domains that each upstream (canonical url) names in its rows, or declares when it has no feed. */
  providerDomains(): ReadonlyMap<string, readonly string[]>
  /**
   * Applies a new configuration in one step; upstreams that it does not change continue undisturbed. Throws like
   * `makeRoster`.
   */
  reconfigure(config: UpstreamsConfig): void
  close(): Promise<void>
}

/** Throws when the configuration has a static upstream without a usable url or an id twice. */
export function createUpstreams(options: UpstreamsOptions): Upstreams {
  const { send, sign, blobs, clock, random, referencesFor, onTrouble } = options
  const onTransition = options.onTransition ?? (() => {})
  const namesFor = options.namesFor ?? (() => [])
  const reads = options.reads ?? (() => true)
  const { sharing } = options
  const turns = sharing ?? EVERY_TURN
  const readings = createReadings({ sharing, clock })
  const store = createSliceStore({
    blobs,
    clock,
    onTrouble,
    ...(sharing && { shared: { sharing, readings } }),
  })
  const learnt = createLearntStore({ blobs, isShared: sharing !== undefined, onTrouble })
  const registered = createRegistries({
    ...{ send, blobs, clock, random, onTransition, onTrouble },
    grace: () => config.defaults,
    onChange: () => follow(),
  })
  const governor = createGovernor(() => config.limits ?? READ_LIMITS)
  const slotsOf = createSlots()
  const loading = pLimit(LOADING)
  const runners = new Map<string, Runner>()
  const listeners = new Set<() => void>()

  let config = options.config
  let roster: Roster = makeRoster({ registries: [], statics: config.statics, policy: config.policy })
  let loaded: Promise<unknown> = Promise.resolve()
  let opened: Promise<void> | undefined
  let isAsked = false // to start
  let started = false
  let swept = false
  let slices: readonly Slice[] | undefined
  let domains: ReadonlyMap<string, readonly string[]> | undefined

  function changed(): void {
    slices = undefined
    domains = undefined
    for (const listener of listeners) listener()
  }

  function byUrl(): Runner[] {
    return roster.entries.flatMap(({ agentUrl }) => runners.get(agentUrl) ?? [])
  }

  const scopesOf = ({ agentUrl }: RosterEntry): readonly Scope[] => config.scopes?.get(agentUrl) ?? []

  function settingOf(entry: RosterEntry): RunnerSetting {
    const { account: introduction, defaults: pace } = config
    const { concurrency, seedsFromBriefs = false } = pace
    return { entry, pace, introduction, concurrency, seedsFromBriefs, scopes: scopesOf(entry) }
  }

  function runnerOf(entry: RosterEntry): Runner {
    return createRunner({
      ...(sign && { sign }),
      ...{ send, store, turns, readings, learnt, governor },
      ...{ clock, random, referencesFor, namesFor, onTransition, onTrouble },
      setting: settingOf(entry),
      slotsFor: (concurrency) => slotsOf(entry.agentUrl, concurrency),
      onChange: changed,
    })
  }

  const unlisted = createUnlisted(runnerOf)

  /** Once all registries have answered, drops saved slices of upstreams and accounts that no longer exist. */
  async function sweep(): Promise<void> {
    const turn = turns.turn(SWEEPING)
    if (swept || !started || !registered.isComplete() || !turn) return
    swept = true
    const entries = new Map(roster.entries.map((entry) => [entry.agentUrl, entry]))
    await learnt.sweep((agentUrl) => entries.has(agentUrl))
    await store.sweep(({ agentUrl, scope }) => {
      const entry = entries.get(agentUrl)
      return entry !== undefined && (scope === PUBLIC || scopesOf(entry).some(({ name }) => name === scope))
    }, turn)
  }

  /** One that cannot be read must not delay the wait for the others. */
  function awaitAll(work: readonly Promise<void>[]): void {
    loaded = Promise.all(
      work.map((one) =>
        one.catch((error: Error) => onTrouble(`what was saved could not be read: ${error.message}`)),
      ),
    )
  }

  /** Brings the runners in line with registries and configuration, in one synchronous step. */
  function follow(): void {
    const { statics, policy } = config
    roster = makeRoster({ registries: registered.records(), statics, policy })
    const wanted = new Map(
      roster.entries.filter(({ id }) => reads(id)).map((entry) => [entry.agentUrl, entry]),
    )
    turns.want('mirrors', [...wanted.keys()].map(turnOf))
    turns.lead('sweeping', [SWEEPING]) // an older configuration does not name all whose rows others need
    const work: Promise<void>[] = []
    for (const [agentUrl, runner] of runners) {
      if (wanted.has(agentUrl)) continue
      runners.delete(agentUrl)
      work.push(runner.close())
    }
    for (const [agentUrl, entry] of wanted) {
      const known = runners.get(agentUrl)
      if (known) {
        work.push(...known.update(settingOf(entry)))
        continue
      }
      const runner = runnerOf(entry)
      runners.set(agentUrl, runner)
      if (started) work.push(loading(() => runner.start()))
    }
    work.push(sweep())
    awaitAll(work)
    changed()
  }

  turns.onTurns(() => {
    for (const runner of runners.values()) runner.turnsChanged()
    void sweep().catch((error: Error) => onTrouble(`saved slices could not be swept: ${error.message}`))
  })

  function open(): Promise<void> {
    opened ??= Promise.all([store.restore(), registered.restore()]).then(() => {
      registered.configure(config.registries)
      follow()
    })
    return opened
  }

  return {
    open,
    async start() {
      if (isAsked) throw new Error('upstreams: started twice')
      isAsked = true
      await open()
      started = true
      awaitAll([...[...runners.values()].map((runner) => loading(() => runner.start())), sweep()])
      await loaded
    },
    roster: () => roster,
    memory: () => ({
      usedBytes: governor.usedBytes(),
      limitBytes: governor.limits().memoryBytes,
      evictions: governor.evictions(),
    }),
    registries: registered.statuses,
    silentRegistries() {
      return registered.statuses().flatMap(({ url, fetchedAt, problem, unvouched }) => {
        if (fetchedAt !== undefined && !unvouched) return []
        const upstreams = listedOnlyBy(url, roster, config.statics)
        return [{ url, ...(problem && { reason: problem.reason }), upstreams }]
      })
    },
    statuses: () => byUrl().map((runner) => runner.status()),
    accountStatuses: () => byUrl().flatMap((runner) => runner.accountStatuses()),
    statusesOf: (scope) => byUrl().flatMap((runner) => runner.statusOf(scope) ?? []),
    slices() {
      slices ??= byUrl().flatMap((runner) => runner.slice() ?? [])
      return slices
    },
    holdings: () => byUrl().flatMap((runner) => runner.holdings()),
    async loaded() {
      await Promise.all(byUrl().map((runner) => runner.loaded()))
    },
    areFound: store.areFound,
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    idOf: (agentUrl) => runners.get(agentUrl)?.entry().id ?? agentUrl,
    hasCredential(agentUrl) {
      const { auth } = runners.get(agentUrl)?.entry() ?? unlistedEntry(agentUrl, config.statics)
      return auth.type !== 'none'
    },
    ask: async (agentUrl, ...call) => (await runners.get(agentUrl)?.call(...call)) ?? notThere(agentUrl),
    async call(agentUrl, ...call) {
      // One that a newer configuration names may have a credential in it.
      const left = () => (turns.isNewest() ? unlisted.at(agentUrl, config.statics) : undefined)
      const runner = runners.get(agentUrl) ?? left()
      return (await runner?.call(...call)) ?? notThere(agentUrl)
    },
    callerOf(agentUrl) {
      const entry = runners.get(agentUrl)?.entry()
      return async (...call) => {
        const listed = runners.get(agentUrl)
        if (listed) return await listed.call(...call)
        if (!entry) return notThere(agentUrl)
        const left = runnerOf(entry)
        return await left.call(...call).finally(left.close)
      }
    },
    refreshSoon: (agentUrl, caller) => runners.get(agentUrl)?.refreshSoon(caller),
    heard: (agentUrl) => runners.get(agentUrl)?.heard() ?? { gainedMs: 0, spared: 0 },
    questionsMoved(concerns, isNews) {
      for (const [agentUrl, runner] of runners) {
        if (runner.livesByQuestions() && concerns(agentUrl)) runner.questionsMoved(() => isNews(agentUrl))
      }
    },
    refreshWhole(id) {
      const entry = roster.entries.find((one) => one.id === id)
      const runner = entry && runners.get(entry.agentUrl)
      runner?.refreshWhole()
      return runner !== undefined
    },
    dialectOf: (agentUrl) => runners.get(agentUrl)?.dialect(),
    providerDomains() {
      domains ??= new Map(byUrl().map((runner) => [runner.entry().agentUrl, runner.providerDomains()]))
      return domains
    },
    reconfigure(next) {
      makeRoster({ registries: [], statics: next.statics, policy: next.policy }) // throws before anything changed
      config = next
      unlisted.clear()
      registered.configure(next.registries)
      follow()
      governor.weigh()
    },
    async close() {
      await registered.close()
      const stopping = [...runners.values()].map((runner) => runner.end())
      runners.clear()
      unlisted.clear()
      await Promise.all(stopping)
      await store.close()
      await learnt.close()
    },
  }
}
