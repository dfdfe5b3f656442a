/**
 * Keeps the registries' listings current: each registry on its own schedule, with jitter and backoff, the last good
 * listing kept on disk and used when its registry is down at start (docs/protocol.md#registry).
 */

import { backoffMs, jittered } from '../../net/backoff.js'
import type { Clock } from '../../net/clock.js'
import type { Send } from '../../net/send.js'
import type { Blobs } from '../blobs.js'
import type { UpstreamFailure } from '../status.js'
import { createRegistry, type Listing, type RegistryRecord } from './registry.js'

const BLOB = 'roster'

export type RegistryConfig = {
  url: string
  refreshMs: number
  headers?: Readonly<Record<string, string>>
}

export type RegistryStatus = {
  url: string
  /** Records in use; undefined while none was ever listed. */
  agents?: number
  fetchedAt?: number
  diagnostics: readonly string[]
  problem?: { reason: UpstreamFailure; message: string }
}

export type RegistriesOptions = {
  send: Send
  blobs: Blobs
  clock: Clock
  random(): number
  onChange(): void
  onTrouble(message: string): void
}

type Member = {
  config: RegistryConfig
  listing?: Listing
  problem?: RegistryStatus['problem']
  failures: number
  /** It has answered this process. */
  answered: boolean
  cancel?: () => void
  stopped: boolean
}

function isSaved(value: unknown): value is Record<string, Listing> {
  return typeof value === 'object' && value !== null
}

export function createRegistries({ send, blobs, clock, random, onChange, onTrouble }: RegistriesOptions) {
  const members = new Map<string, Member>()
  let saved: Record<string, Listing> = {}
  let saving = Promise.resolve()

  function save(): void {
    const listings: Record<string, Listing> = {}
    for (const [url, { listing }] of members) if (listing) listings[url] = listing
    saved = listings
    const bytes = Buffer.from(JSON.stringify(listings))
    saving = saving
      .then(() => blobs.write(BLOB, [bytes]))
      .catch((error: Error) => onTrouble(`the roster could not be saved: ${error.message}`))
  }

  async function refresh(member: Member): Promise<void> {
    const { url, refreshMs, headers = {} } = member.config
    const outcome = await createRegistry({ send, url, headers, now: clock.now }).fetch(member.listing)
    if (member.stopped) return
    const isFirstAnswer = !member.answered && outcome.kind !== 'failed'
    if (outcome.kind === 'failed') {
      member.failures += 1
      member.problem = { reason: outcome.reason, message: outcome.message }
    } else {
      member.failures = 0
      member.answered = true
      delete member.problem
    }
    if (outcome.kind === 'unchanged' && member.listing) {
      member.listing = { ...member.listing, fetchedAt: clock.now() }
    }
    if (outcome.kind === 'listed') {
      member.listing = outcome.listing
      save()
    }
    if (outcome.kind === 'listed' || isFirstAnswer) onChange()
    const wait =
      outcome.kind === 'failed'
        ? backoffMs({ failures: member.failures, refreshMs, random, retryAfterMs: outcome.retryAfterMs })
        : jittered(refreshMs, random)
    member.cancel = clock.after(wait, () => void refresh(member))
  }

  function stop(member: Member): void {
    member.stopped = true
    member.cancel?.()
  }

  return {
    /** Reads what an earlier process listed. Call once, before `configure`. */
    async restore(): Promise<void> {
      const parts = await blobs.read(BLOB)
      const [part] = parts ?? []
      if (!part) return
      const value: unknown = JSON.parse(Buffer.from(part).toString())
      if (isSaved(value)) saved = value
    },
    /** Starts asking new registries, stops asking those that are gone; the first answers arrive later. */
    configure(configs: readonly RegistryConfig[]): void {
      const wanted = new Map(configs.map((config) => [config.url, config]))
      for (const [url, member] of members) {
        if (JSON.stringify(wanted.get(url)) === JSON.stringify(member.config)) continue
        stop(member)
        members.delete(url)
      }
      for (const config of configs) {
        if (members.has(config.url)) continue
        const listing = saved[config.url]
        const member: Member = {
          config,
          failures: 0,
          answered: false,
          stopped: false,
          ...(listing && { listing }),
        }
        members.set(config.url, member)
        void refresh(member)
      }
    },
    records(): { url: string; records: readonly RegistryRecord[] }[] {
      return [...members].map(([url, { listing }]) => ({ url, records: listing?.records ?? [] }))
    },
    /** Every registry has answered this process: whoever is not listed now is listed nowhere. */
    isComplete: () => [...members.values()].every(({ answered }) => answered),
    statuses(): RegistryStatus[] {
      return [...members].map(([url, { listing, problem }]) => ({
        url,
        diagnostics: listing?.diagnostics ?? [],
        ...(listing && { agents: listing.records.length, fetchedAt: listing.fetchedAt }),
        ...(problem && { problem }),
      }))
    },
    async close(): Promise<void> {
      for (const member of members.values()) stop(member)
      members.clear()
      await saving
    },
  }
}
