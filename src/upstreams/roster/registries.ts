/**
 * Reads the registries' listings of signals agents, conditionally and within bounds (specification, "Registry listing";
 * docs/protocol.md#registry), and keeps them current: each registry on its own schedule, with jitter and backoff, the last good
 * listing kept on disk and used when its registry is down at start. A registry that suddenly lists nobody is not believed at
 * once: its agents stay for as long as an upstream that vanished does. One that has lost most of its agents must say so twice
 * (docs/registry.md).
 */
import { backoffMs, type Clock, jittered } from '../../net/clock.js'
import type { Send } from '../../net/send.js'
import {
  type CallFailure,
  callFailed,
  createDoubt,
  type Doubt,
  secretsShown,
  type UpstreamFailure,
} from '../agent/agent.js'
import { readRegistry } from '../agent/readers.js'
import { networkFailure, statusFailure } from '../agent/rpc.js'
import { isItsPlace, listedOf, type RegistryListing, type RegistryRecord } from '../rows/registry-records.js'
import type { Blobs } from '../rows/storage.js'

const MAX_LISTING_BYTES = 32 * 1024 * 1024
const LISTING_TIMEOUT_MS = 30_000
const BLOB = 'roster'
const UNUSABLE: ReadonlySet<UpstreamFailure> = new Set(['protocol_error', 'shrunken_feed']) // it answers, with no listing
const GATHER_MS = 1_000 // several registries that change together change the roster once

export type RegistryConfig = {
  url: string
  refreshMs: number
  headers?: Readonly<Record<string, string>>
}

/** How long the word of a registry holds that does not repeat it, ms. */
type Grace = { staleAfterMs: number; dropAfterMs: number }

export type RegistryStatus = {
  url: string
  /** In use; undefined while none was ever listed. */
  agents?: number
  fetchedAt?: number
  diagnostics: readonly string[]
  problem?: { reason: UpstreamFailure; message: string }
  /** It no longer vouches for its agents: they stay as they were last listed. */
  unvouched: boolean
  /** When they leave because nobody vouches for them, ms since the epoch. */
  leaveAt?: number
}

/** A registry began to be in trouble, or is out of it. */
export type RegistryTransition = { registry: string; to: 'answers' | UpstreamFailure; message: string }

type RegistriesOptions = {
  send: Send
  blobs: Blobs
  clock: Clock
  random(): number
  grace(): Grace
  /** Called when what the registries list has changed. */
  onChange(): void
  onTransition(transition: RegistryTransition): void
  onTrouble(message: string): void
}

/** What outlives the process of a registry. `emptySince`: from when on it has listed nobody, ms. */
type Saved = RegistryListing & { emptySince?: number }

/** As this release or an earlier one saved it. */
type SavedOnce = Omit<Saved, 'agents' | 'written' | 'digest'> & { agents?: number }

/**
 * What an earlier release saved is asked for anew where it lacks something: one kept one record of each agent, and did not count
 * the agents; one took agents for one that only their queries tell apart. One kept records of agents that are called elsewhere than at
 * their urls: these are not used.
 */
function asSaved({ agents, etag, records, ...rest }: SavedOnce): Saved {
  const own = records.filter(({ url, agentUrl }) => isItsPlace(url, agentUrl))
  const isWhole = agents !== undefined && own.length === records.length
  return { ...rest, ...listedOf(own), ...(etag && isWhole && { etag }) }
}

/** As it is saved: the records were written where they were read, and are not written again. */
function savedBytes(listings: Readonly<Record<string, Saved>>): Buffer {
  const pieces = Object.entries(listings).flatMap(
    ([url, { records: _, written, digest: __, ...rest }], at) => [
      Buffer.from(`${at === 0 ? '' : ','}${JSON.stringify(url)}:{"records":`),
      written,
      Buffer.from(`,${JSON.stringify(rest).slice(1)}`),
    ],
  )
  return Buffer.concat([Buffer.from('{'), ...pieces, Buffer.from('}')])
}

type Member = {
  config: RegistryConfig
  listing?: RegistryListing
  emptySince?: number
  doubt: Doubt
  problem?: RegistryStatus['problem']
  failures: number
  /** It has given this process a usable answer. */
  answered: boolean
  cancel: () => void
  cancelGrace: () => void
  stopped: boolean
}

type RegistryOutcome = { kind: 'listed'; listing: RegistryListing } | { kind: 'unchanged' } | CallFailure

type Question = {
  send: Send
  url: string
  headers: Readonly<Record<string, string>>
  /** What an earlier answer listed: makes the request conditional. */
  held?: RegistryListing | undefined
  now(): number
}

/** Asks a registry once. */
export async function askRegistry({ send, url, headers, held, now }: Question): Promise<RegistryOutcome> {
  const reply = await send({
    url: `${url.replace(/\/+$/, '')}/api/registry/agents?type=signals&health=true&compliance=true`,
    headers: { accept: 'application/json', ...headers, ...(held?.etag && { 'if-none-match': held.etag }) },
    timeoutMs: LISTING_TIMEOUT_MS,
    maxBytes: MAX_LISTING_BYTES,
    redirects: 'same-site',
  })
  if (reply.kind === 'failed') return networkFailure(reply)
  if (reply.status === 304 && held) return { kind: 'unchanged' }
  const failure = statusFailure(reply, now())
  if (failure) return failure
  const secrets = secretsShown(Object.values(headers), url)
  const listing = reply.status === 200 ? await readRegistry(url, reply.body, secrets) : undefined
  if (!listing) return callFailed('protocol_error', `HTTP ${reply.status} is no registry listing`)
  const { etag } = reply.headers
  return { kind: 'listed', listing: { ...listing, fetchedAt: now(), ...(etag && { etag }) } }
}

function isSaved(value: unknown): value is Record<string, SavedOnce> {
  return typeof value === 'object' && value !== null
}

/** Asks nobody before it is configured. */
export function createRegistries(options: RegistriesOptions) {
  const { send, blobs, clock, random, grace, onChange, onTransition, onTrouble } = options
  const members = new Map<string, Member>()
  let saved: Record<string, Saved> = {}
  let saving = Promise.resolve()
  let cancelGather: (() => void) | undefined

  function save(): void {
    const listings: Record<string, Saved> = {}
    for (const [url, { listing, emptySince }] of members) {
      if (listing) listings[url] = { ...listing, ...(emptySince !== undefined && { emptySince }) }
    }
    saved = listings
    const bytes = savedBytes(listings)
    saving = saving
      .then(() => blobs.write(BLOB, [bytes]))
      .catch((error: Error) => onTrouble(`the roster could not be saved: ${error.message}`))
  }

  /** Registries that change together cause one call of `onChange`; the first listing of a registry causes its own at once. */
  function changed(isFirst: boolean): void {
    if (isFirst) {
      cancelGather?.()
      cancelGather = undefined
      onChange()
      return
    }
    cancelGather ??= clock.after(GATHER_MS, () => {
      cancelGather = undefined
      onChange()
    })
  }

  function leaveAt({ emptySince }: Member): number | undefined {
    return emptySince === undefined ? undefined : emptySince + grace().dropAfterMs
  }

  /** Its agents leave when it has listed nobody for as long as an upstream that vanished is kept. */
  function watchGrace(member: Member): void {
    member.cancelGrace()
    const at = leaveAt(member)
    if (at === undefined) return
    member.cancelGrace = clock.after(at - clock.now(), () => {
      if (!member.listing) return
      delete member.emptySince
      delete member.problem
      const { etag: _, ...listing } = member.listing // what it named is not what is in use now
      member.listing = { ...listing, ...listedOf([]) }
      save()
      changed(false)
    })
  }

  function fail(member: Member, reason: UpstreamFailure, message: string): void {
    const isNew = member.problem?.reason !== reason
    member.problem = { reason, message }
    if (isNew) onTransition({ registry: member.config.url, to: reason, message })
  }

  function recover(member: Member): void {
    const wasInTrouble = member.problem !== undefined
    delete member.problem
    delete member.emptySince
    member.cancelGrace()
    if (wasInTrouble) {
      const message = `it lists ${member.listing?.agents ?? 0} agents`
      onTransition({ registry: member.config.url, to: 'answers', message })
    }
  }

  function settle(member: Member, outcome: RegistryOutcome): void {
    if (outcome.kind === 'failed') {
      member.failures += 1
      fail(member, outcome.reason, outcome.message)
      return
    }
    member.failures = 0
    const known = member.listing?.agents ?? 0
    if (outcome.kind === 'listed' && outcome.listing.agents === 0 && known > 0) {
      member.emptySince ??= clock.now()
      fail(member, 'protocol_error', `it lists nobody; the ${known} agents that it listed before are kept`)
      watchGrace(member)
      save()
      return
    }
    const isFirst = member.listing === undefined
    const isFirstAnswer = !member.answered
    const isOther = outcome.kind === 'listed' && member.listing?.digest !== outcome.listing.digest
    member.answered = true
    if (outcome.kind === 'listed') member.listing = outcome.listing
    else if (member.listing) member.listing = { ...member.listing, fetchedAt: clock.now() }
    recover(member)
    if (outcome.kind === 'listed') save()
    if (isOther || isFirstAnswer) changed(isFirst)
  }

  /** What it answered, where that can be taken at its word. */
  function believed({ doubt, listing }: Member, outcome: RegistryOutcome): RegistryOutcome {
    if (outcome.kind === 'unchanged') doubt.clear()
    if (outcome.kind !== 'listed' || outcome.listing.agents === 0) return outcome
    return doubt.about(listing?.agents ?? 0, outcome.listing.agents) ?? outcome
  }

  async function refresh(member: Member): Promise<void> {
    const { url, headers = {} } = member.config
    const answer = await askRegistry({ send, url, headers, held: member.listing, now: clock.now })
    if (member.stopped) return
    const outcome = believed(member, answer)
    settle(member, outcome)
    const { refreshMs } = member.config
    const wait =
      outcome.kind === 'failed'
        ? backoffMs({ failures: member.failures, refreshMs, random, retryAfterMs: outcome.retryAfterMs })
        : jittered(refreshMs, random)
    member.cancel = clock.after(wait, () => void refresh(member))
  }

  function stop(member: Member): void {
    member.stopped = true
    member.cancel()
    member.cancelGrace()
  }

  function statusOf(member: Member): RegistryStatus {
    const { config, listing, problem, emptySince } = member
    const isOld = listing !== undefined && clock.now() - listing.fetchedAt > grace().staleAfterMs
    const at = leaveAt(member)
    return {
      url: config.url,
      diagnostics: listing?.diagnostics ?? [],
      ...(listing && { agents: listing.agents, fetchedAt: listing.fetchedAt }),
      ...(problem && { problem }),
      unvouched: emptySince !== undefined || (problem && (isOld || UNUSABLE.has(problem.reason))) === true,
      ...(at !== undefined && { leaveAt: at }),
    }
  }

  return {
    /** Reads what an earlier process listed. Call once, before `configure`. */
    async restore(): Promise<void> {
      const parts = await blobs.read(BLOB)
      const [part] = parts ?? []
      if (!part) return
      const value: unknown = JSON.parse(Buffer.from(part).toString())
      if (!isSaved(value)) return
      saved = Object.fromEntries(Object.entries(value).map(([url, one]) => [url, asSaved(one)]))
    },
    /** Starts asking new registries, stops asking those that are gone; the first answers arrive later. */
    configure(configs: readonly RegistryConfig[]): void {
      const wanted = new Map(configs.map((config) => [config.url, config]))
      const before = new Map(members)
      for (const [url, member] of before) if (!wanted.has(url)) stop(member)
      members.clear() // they stand in the order of the configuration: the first to list an agent describes it
      for (const config of wanted.values()) {
        const known = before.get(config.url)
        if (known && JSON.stringify(known.config) === JSON.stringify(config)) {
          members.set(config.url, known)
          watchGrace(known)
          continue
        }
        if (known) stop(known)
        const { emptySince, ...listing } = saved[config.url] ?? {}
        const member: Member = {
          ...{ config, failures: 0, answered: known?.answered ?? false, stopped: false },
          ...{ cancel: () => {}, cancelGrace: () => {} },
          doubt: createDoubt({ of: 'agents', refreshMs: config.refreshMs, now: clock.now }),
          ...('records' in listing && { listing: listing as RegistryListing }),
          ...(emptySince !== undefined && { emptySince }),
          ...(known?.problem && { problem: known.problem }),
        }
        members.set(config.url, member)
        watchGrace(member)
        void refresh(member)
      }
    },
    records(): { url: string; records: readonly RegistryRecord[] }[] {
      return [...members].map(([url, { listing }]) => ({ url, records: listing?.records ?? [] }))
    },
    /**
     * Whether every registry has answered this process and vouches for its agents: an agent that is not listed now is
     * listed nowhere.
     */
    isComplete: () => [...members.values()].every((member) => member.answered && !statusOf(member).unvouched),
    statuses: (): RegistryStatus[] => [...members.values()].map(statusOf),
    async close(): Promise<void> {
      cancelGather?.()
      for (const member of members.values()) stop(member)
      members.clear()
      await saving
    },
  }
}
