/**
 * Every upstream we read from: who they are now, how they are, what they offer, and a way to call them.
 * The rest of the product knows upstreams only through this (docs/house.md).
 */
import pLimit from 'p-limit'
import type { SignalRef } from '../adcp/reference.js'
import type { Clock } from '../net/clock.js'
import type { Send } from '../net/send.js'
import { type AgentError, type Arguments, type CallFailure, callFailed, type Payload } from './agent/agent.js'
import { withSignals } from './agent/answer.js'
import { createSlots } from './agent/slots.js'
import type { Blobs } from './blobs.js'
import { createGuests } from './guests.js'
import type { Held } from './mirror/mirror.js'
import type { OverlayOutcome, Scope } from './mirror/overlay.js'
import { createRunner, type Pace, type Runner, type UpstreamCall } from './mirror/runner.js'
import { createSliceStore } from './mirror/slice-store.js'
import { createRegistries, type RegistryConfig, type RegistryStatus } from './roster/registries.js'
import {
  makeRoster,
  type Roster,
  type RosterEntry,
  type RosterPolicy,
  type StaticUpstream,
} from './roster/roster.js'
import { listingsOf } from './rows/read-rows.js'
import type { Slice } from './rows/slice.js'
import type { UpstreamStatus } from './status.js'

const TOTAL_CALLS = 1_024 // under way at once: so many that hundreds of hung upstreams leave places for the others
const LOADING = 4 // slices read from disk at once

export type UpstreamsConfig = {
  registries: readonly RegistryConfig[]
  statics: readonly StaticUpstream[]
  policy: RosterPolicy
  /** Ours, by its natural key: for agents that answer nobody without an account. */
  account: Arguments
  defaults: Pace & {
    /** Calls under way to one upstream. */
    concurrency: number
  }
}

export type UpstreamsOptions = {
  config: UpstreamsConfig
  send: Send
  blobs: Blobs
  clock: Clock
  /** From 0 to 1, for jitter. */
  random(): number
  /** What providers published and authorized for this agent (canonical url): how brief-only agents are enumerated. */
  referencesFor(agentUrl: string): readonly SignalRef[] | Promise<readonly SignalRef[]>
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
  statuses(): UpstreamStatus[]
  /** The slices in use, by canonical agent url. The same objects until `onChange`. */
  slices(): readonly Slice[]
  /** Called after slices or provider domains changed. Returns how to stop being called. */
  onChange(listener: (upstream: string) => void): () => void
  /** The id of an agent (canonical url) in the roster; its url where it is not, or no longer, there. */
  idOf(agentUrl: string): string
  /** Calls a task of one upstream, by what `idOf` gives, once. Arguments are cut to what its dialect knows. */
  call(id: string, task: string, args: Arguments, options: UpstreamCall): Promise<CallOutcome>
  /**
   * What one upstream offers to another account or credential; cached per scope, never mixed with `slices`.
   * `fresh`: what was read before this call is not enough.
   */
  overlay(id: string, scope: Scope, deadline: number, fresh?: boolean): Promise<OverlayOutcome>
  /** Refreshes one upstream now: after its definitions or its activations changed. Unknown ids are ignored. */
  refreshSoon(id: string): void
  /** Provider domains named by the slices in use, or declared by agents that have no feed; sorted. */
  providerDomains(): readonly string[]
  /** Follows a new configuration; upstreams that it does not touch go on undisturbed. Throws as `makeRoster`. */
  reconfigure(config: UpstreamsConfig): void
  close(): Promise<void>
}

/** Tokens belong to the credential they came with, and a successor may have another one. */
function untokened({ slice, ...rest }: Held): Held {
  const { feedVersion, pricingVersion, ...plain } = slice
  return { ...rest, slice: plain }
}

/** Throws when the configuration has a static upstream without a usable url or an id twice. */
export function createUpstreams(options: UpstreamsOptions): Upstreams {
  const { send, blobs, clock, random, referencesFor, onTrouble } = options
  const store = createSliceStore({ blobs, clock, onTrouble })
  const registered = createRegistries({
    send,
    blobs,
    clock,
    random,
    onChange: () => void applyRoster(),
    onTrouble,
  })
  const total = pLimit(TOTAL_CALLS)
  const loading = pLimit(LOADING)
  const runners = new Map<string, { runner: Runner; fingerprint: string }>()
  const listeners = new Set<(upstream: string) => void>()

  let config = options.config
  let roster: Roster = makeRoster({ registries: [], statics: config.statics, policy: config.policy })
  let started = false
  let swept = false
  let slices: readonly Slice[] | undefined
  let domains: readonly string[] | undefined

  function changed(id: string): void {
    slices = undefined
    domains = undefined
    for (const listener of listeners) listener(id)
  }

  function byUrl(): Runner[] {
    return roster.entries.flatMap(({ agentUrl }) => runners.get(agentUrl)?.runner ?? [])
  }

  function runnerOf(entry: RosterEntry): Runner {
    const { account, defaults } = config
    return createRunner({
      ...{ entry, account },
      pace: defaults,
      send,
      slots: createSlots(total, defaults.concurrency),
      store,
      clock,
      random,
      referencesFor,
      onTrouble,
      onChange: () => changed(entry.id),
    })
  }

  const guests = createGuests(runnerOf)

  function byId(id: string): Runner | undefined {
    const entry = roster.entries.find((one) => one.id === id)
    return entry && runners.get(entry.agentUrl)?.runner
  }

  /** Brings the runners in line with registries and configuration; those that did not change are left alone. */
  function applyRoster(): Promise<void> {
    const { statics, policy, account, defaults } = config
    roster = makeRoster({ registries: registered.records(), statics, policy })
    const wanted = new Map(roster.entries.map((entry) => [entry.agentUrl, entry]))
    const fingerprints = new Map(
      roster.entries.map(({ online, verified, member, ...entry }) => [
        entry.agentUrl,
        JSON.stringify([entry, account, defaults]),
      ]),
    )
    const work: Promise<void>[] = []
    const predecessors = new Map<string, Held>()
    for (const [agentUrl, { runner, fingerprint }] of runners) {
      if (fingerprints.get(agentUrl) === fingerprint) continue
      const held = runner.held()
      if (held) predecessors.set(agentUrl, untokened(held))
      runners.delete(agentUrl)
      work.push(runner.close())
      if (held && !wanted.has(agentUrl)) changed(runner.entry.id)
    }
    for (const [agentUrl, entry] of wanted) {
      if (runners.has(agentUrl)) continue
      const runner = runnerOf(entry)
      runners.set(agentUrl, { runner, fingerprint: fingerprints.get(agentUrl) ?? '' })
      const predecessor = predecessors.get(agentUrl)
      work.push(predecessor ? runner.start(predecessor) : loading(() => runner.start(undefined)))
    }
    if (!swept && started && registered.isComplete()) {
      swept = true
      work.push(store.sweep((agentUrl) => wanted.has(agentUrl)))
    }
    return Promise.all(work).then(
      () => {},
      (error: Error) => onTrouble(`saved slices could not be read: ${error.message}`),
    )
  }

  return {
    async start() {
      if (started) throw new Error('upstreams: started twice')
      started = true
      await Promise.all([store.restore(), registered.restore()])
      registered.configure(config.registries)
      await applyRoster()
    },
    roster: () => roster,
    registries: registered.statuses,
    statuses: () => byUrl().map((runner) => runner.status()),
    slices() {
      slices ??= byUrl().flatMap((runner) => runner.held()?.slice ?? [])
      return slices
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async overlay(id, scope, deadline, fresh) {
      const runner = byId(id)
      return runner
        ? runner.overlay(scope, deadline, fresh)
        : callFailed('unknown_upstream', `no upstream ${id}`)
    },
    idOf: (agentUrl) => runners.get(agentUrl)?.runner.entry.id ?? agentUrl,
    async call(id, task, args, call) {
      const runner = byId(id) ?? runners.get(id)?.runner ?? guests.at(id, config.statics)
      if (!runner) return callFailed('unknown_upstream', `no upstream ${id}`)
      const outcome = await runner.call(task, args, call)
      if (outcome.kind !== 'answer') return outcome
      const { payload, rows } = outcome
      return { kind: 'answer', payload: rows.elements > 0 ? withSignals(payload, listingsOf(rows)) : payload }
    },
    refreshSoon(id) {
      byId(id)?.refreshSoon()
    },
    providerDomains() {
      domains ??= [...new Set(byUrl().flatMap((runner) => runner.providerDomains()))].sort()
      return domains
    },
    reconfigure(next) {
      makeRoster({ registries: [], statics: next.statics, policy: next.policy }) // throws before anything changed
      config = next
      guests.clear()
      registered.configure(next.registries)
      void applyRoster()
    },
    async close() {
      await registered.close()
      const stopping = [...runners.values()].map(({ runner }) => runner.close())
      runners.clear()
      guests.clear()
      await Promise.all(stopping)
      await store.close()
    },
  }
}
