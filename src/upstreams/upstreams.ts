/**
 * Every upstream we read from: who they are now, how they are, what they offer, and a way to call them.
 * The rest of the product knows upstreams only through this.
 */
import pLimit from 'p-limit'
import type { SignalRef } from '../adcp/reference.js'
import { agentUrlOf } from '../adcp/url.js'
import type { Clock } from '../net/clock.js'
import type { Send } from '../net/send.js'
import type { Signer } from '../signing/sign.js'
import { type AgentError, type Arguments, type CallFailure, callFailed, type Payload } from './agent/agent.js'
import { withSignals } from './agent/answer.js'
import type { Dialect } from './agent/dialect/dialect.js'
import { createLearntStore } from './agent/dialect/learnt.js'
import { createSlots } from './agent/slots.js'
import type { UpstreamFailure, UpstreamStatus } from './agent/status.js'
import { createReadings, turnOf } from './mirror/readings.js'
import { createRunner, type Holding, type Runner, type RunnerSetting } from './mirror/runner.js'
import { type Pace, PUBLIC, type Scope } from './mirror/scope-setting.js'
import type { ScopeStatus, Transition } from './mirror/scope-status.js'
import { createSliceStore } from './mirror/slice-store.js'
import {
  createRegistries,
  type RegistryConfig,
  type RegistryStatus,
  type RegistryTransition,
} from './roster/registries.js'
import {
  makeRoster,
  type Roster,
  type RosterEntry,
  type RosterPolicy,
  type StaticUpstream,
} from './roster/roster.js'
import type { Blobs } from './rows/blobs.js'
import { listingsOf } from './rows/read-rows.js'
import { EVERY_TURN, type Sharing } from './rows/sharing.js'
import type { Slice } from './rows/slice.js'
import { createUnlisted } from './unlisted.js'
import type { UpstreamCall } from './walk/contact.js'
import { createGovernor, READ_LIMITS, type ReadLimits } from './walk/governor.js'

const TOTAL_CALLS = 1_024 // under way at once: so many that hundreds of hung upstreams leave places for the others
const SWEEPING = 'sweeping'
const LOADING = 4 // upstreams whose slices are read from disk at once

export type UpstreamsConfig = {
  registries: readonly RegistryConfig[]
  statics: readonly StaticUpstream[]
  policy: RosterPolicy
  limits?: ReadLimits
  /** Ours, by its natural key: for agents that answer nobody without an account. */
  account: Arguments
  /** Accounts of callers that are read beside the public scope, by the upstream's canonical url. */
  scopes?: ReadonlyMap<string, readonly Scope[]>
  defaults: Pace & {
    /** Calls under way to one upstream. */
    concurrency: number
    /** What buyers ask an agent without a feed is asked again. Absent: it is not. */
    seedsFromBriefs?: boolean
  }
}

export type UpstreamsOptions = {
  config: UpstreamsConfig
  send: Send
  /** Signs requests of agents that ask for it; absent: none is. */
  sign?: Signer
  blobs: Blobs
  /** With other processes that read for the same storage. Absent: this one is alone. */
  sharing?: Sharing
  clock: Clock
  /** From 0 to 1, for jitter. */
  random(): number
  /** What providers published and authorized for this agent (canonical url): how brief-only agents are enumerated. */
  referencesFor(agentUrl: string): readonly SignalRef[] | Promise<readonly SignalRef[]>
  /** What providers call these signals: questions for agents that know no lookup. Absent: there are none. */
  namesFor?(agentUrl: string): readonly string[] | Promise<readonly string[]>
  /** Which upstreams of the roster are read, by their ids. Absent: all. */
  reads?(id: string): boolean
  /** Told when a scope of an upstream, or a registry, is doing otherwise than before. */
  onTransition?(transition: Transition | RegistryTransition): void
  /** Told in words of trouble with disk; upstreams' own troubles are in `statuses`. */
  onTrouble(message: string): void
}

export type CallOutcome =
  | { kind: 'answer'; payload: Payload }
  | { kind: 'error'; error: AgentError }
  | CallFailure

export type Upstreams = {
  /** Takes up saved state and starts reading. Resolves when what was saved is in `slices`. */
  start(): Promise<void>
  roster(): Roster
  registries(): RegistryStatus[]
  /** Registries whose word cannot be had now, with the ids of the upstreams that stay on their last word alone. */
  silentRegistries(): { url: string; reason?: UpstreamFailure; upstreams: readonly string[] }[]
  /** Of the public scopes, one an upstream. */
  statuses(): UpstreamStatus[]
  /** Of the accounts' scopes, of all upstreams. */
  accountStatuses(): ScopeStatus[]
  /** Of one account's scopes. */
  statusesOf(scope: string): ScopeStatus[]
  /** The public slices in use, by canonical agent url. The same objects until `onChange`. */
  slices(): readonly Slice[]
  /** What every scope of every upstream holds. */
  holdings(): readonly Holding[]
  /**
   * Called after the roster, what a scope holds, or provider domains changed; synchronously, so that listeners that look
   * must wait until who moves the world has finished. Returns how to stop being called.
   */
  onChange(listener: () => void): () => void
  /** The id of an agent (canonical url) in the roster; its url where it is not, or no longer, there. */
  idOf(agentUrl: string): string
  /** Calls a task of one upstream, by what `idOf` gives, once. Arguments are cut to what its dialect knows. */
  call(id: string, task: string, args: Arguments, options: UpstreamCall): Promise<CallOutcome>
  /**
   * Refreshes one upstream after a caller activated something there, whose accounts are read again too: at most once a
   * second, and seldom enough for one that takes long. Unknown ids are ignored.
   */
  refreshSoon(id: string, caller?: string): void
  /** An upstream (canonical url) says that something changed: it is read soon. By how many ms sooner than on schedule. */
  heard(agentUrl: string): number
  /**
   * A provider's file may have changed what agents without a feed can be asked for. Those (by canonical url) that it
   * `concerns` and for which it `isNews` are refreshed, as seldom.
   */
  questionsMoved(
    concerns: (agentUrl: string) => boolean,
    isNews: (agentUrl: string) => Promise<boolean>,
  ): void
  /** Reads an upstream now from its first row to its last, whatever its tokens say; false when nobody has this id. */
  refreshWhole(id: string): boolean
  /** How an upstream is spoken to, as far as that is known; undefined for an id that nobody has. */
  dialectOf(id: string): Dialect | undefined
  /** What all rows take together, and how often somebody's gave way for it. */
  memory(): { usedBytes: number; limitBytes: number; evictions: number }
  /** Provider domains by the upstream (canonical agent url) that names them, or that declares them without having a feed. */
  providerDomains(): ReadonlyMap<string, readonly string[]>
  /** Follows a new configuration in one step; what it does not touch goes on undisturbed. Throws as `makeRoster`. */
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
  const learnt = createLearntStore({ blobs, onTrouble })
  const registered = createRegistries({
    ...{ send, blobs, clock, random, onTransition, onTrouble },
    grace: () => config.defaults,
    onChange: () => follow(),
  })
  const governor = createGovernor(() => config.limits ?? READ_LIMITS)
  const total = pLimit(TOTAL_CALLS)
  const loading = pLimit(LOADING)
  const runners = new Map<string, Runner>()
  const listeners = new Set<() => void>()

  let config = options.config
  let roster: Roster = makeRoster({ registries: [], statics: config.statics, policy: config.policy })
  let loaded: Promise<unknown> = Promise.resolve()
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
      slotsFor: (concurrency) => createSlots(total, concurrency),
      onChange: changed,
    })
  }

  const unlisted = createUnlisted(runnerOf)

  function byId(id: string): Runner | undefined {
    const entry = roster.entries.find((one) => one.id === id)
    return entry && runners.get(entry.agentUrl)
  }

  /** Slices of whoever is in no roster and of accounts that nobody has are forgotten, once all registries have spoken. */
  async function sweep(): Promise<void> {
    if (swept || !started || !registered.isComplete() || !turns.turn(SWEEPING)) return
    swept = true
    const entries = new Map(roster.entries.map((entry) => [entry.agentUrl, entry]))
    await learnt.sweep((agentUrl) => entries.has(agentUrl))
    await store.sweep(({ agentUrl, scope }) => {
      const entry = entries.get(agentUrl)
      return entry !== undefined && (scope === PUBLIC || scopesOf(entry).some(({ name }) => name === scope))
    })
  }

  /** Brings the runners in line with registries and configuration, in one step: nobody sees a part of it. */
  function follow(): void {
    const { statics, policy } = config
    roster = makeRoster({ registries: registered.records(), statics, policy })
    const wanted = new Map(
      roster.entries.filter(({ id }) => reads(id)).map((entry) => [entry.agentUrl, entry]),
    )
    turns.want('mirrors', [SWEEPING, ...[...wanted.keys()].map(turnOf)])
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
    loaded = Promise.all(
      // One that cannot be read keeps no other from being waited for.
      work.map((one) =>
        one.catch((error: Error) => onTrouble(`what was saved could not be read: ${error.message}`)),
      ),
    )
    changed()
  }

  turns.onTurns(() => {
    for (const runner of runners.values()) runner.turnsChanged()
    void sweep().catch((error: Error) => onTrouble(`saved slices could not be swept: ${error.message}`))
  })

  return {
    async start() {
      if (started) throw new Error('upstreams: started twice')
      started = true
      await Promise.all([store.restore(), registered.restore()])
      registered.configure(config.registries)
      follow()
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
        const written = new Set(config.statics.map((one) => agentUrlOf(one.url)))
        const listed = roster.entries.filter((one) => one.source === url && !written.has(one.agentUrl))
        return [{ url, ...(problem && { reason: problem.reason }), upstreams: listed.map(({ id }) => id) }]
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
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    idOf: (agentUrl) => runners.get(agentUrl)?.entry().id ?? agentUrl,
    async call(id, task, args, call) {
      const runner = byId(id) ?? runners.get(id) ?? unlisted.at(id, config.statics)
      if (!runner) return callFailed('unknown_upstream', `no upstream ${id}`)
      const outcome = await runner.call(task, args, call)
      if (outcome.kind !== 'answer') return outcome
      const { payload, rows } = outcome
      return { kind: 'answer', payload: rows.elements > 0 ? withSignals(payload, listingsOf(rows)) : payload }
    },
    refreshSoon(id, caller) {
      byId(id)?.refreshSoon(caller)
    },
    heard: (agentUrl) => runners.get(agentUrl)?.heard() ?? 0,
    questionsMoved(concerns, isNews) {
      for (const [agentUrl, runner] of runners) {
        if (runner.livesByQuestions() && concerns(agentUrl)) runner.questionsMoved(() => isNews(agentUrl))
      }
    },
    refreshWhole(id) {
      const runner = byId(id)
      runner?.refreshWhole()
      return runner !== undefined
    },
    dialectOf: (id) => byId(id)?.dialect(),
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
      const stopping = [...runners.values()].map((runner) => runner.close())
      runners.clear()
      unlisted.clear()
      await Promise.all(stopping)
      await store.close()
      await learnt.close()
    },
  }
}
