/**
 * The settings that are durations and sizes (docs/configuration.md): how they are written, their defaults and the rules on
 * them: how often and how long something is tried, what strangers may cost, how long finished things are kept
 * (docs/storage.md#how-much-it-grows). The rules are against intervals that would loop without a pause, bounds that nothing
 * could pass, and values that contradict each other.
 */
import { DEFAULT_RETENTION, type Retention } from '../store/retention.js'
import type { ConfigFile, ConfigPath, Rule } from './schema.js'

const SHORTEST_REFRESH_MS = 1_000
const SHORTEST_TIMEOUT_MS = 100
const LONGEST_DRAIN_MS = 10 * 60_000 // supervisors kill what takes longer
const LONGEST_TIMEOUT_MS = 60 * 60_000 // nobody waits longer, and timers overflow after 24 days

const SHORT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const UNIT_BYTES = { B: 1, KiB: 1_024, MiB: 1_024 ** 2, GiB: 1_024 ** 3 }

/** The configuration's schema has checked the form. */
function measure(text: string, units: Record<string, number>): number {
  const [, amount, unit] = /^(\d+)(\w+)$/.exec(text) ?? []
  return Number(amount) * (units[unit ?? ''] ?? Number.NaN)
}

/** Milliseconds of `250ms`, `30s`, `5m`, `24h`, `7d`. */
export function parseDuration(text: string): number {
  return measure(text, SHORT_MS)
}

/** Bytes of `512B`, `256KiB`, `32MiB`, `1GiB`. */
function parseSize(text: string): number {
  return measure(text, UNIT_BYTES)
}

/** Of `defaults`. */
export const DEFAULT_TIMES = { timeout: '30s', refresh: '5m', stale_after: '1h', drop_after: '24h' }

/**
 * The default of `listen.drain`. Where other processes serve the same address, the load balancer must first see that this
 * one is no longer ready. A storage folder has one process, so waiting would only delay the next start.
 */
export function defaultDrain(storageUrl: string): string {
  return storageUrl.startsWith('file:') ? '0s' : '5s'
}

function* refreshRule(text: string | undefined, at: ConfigPath): Rule {
  if (text !== undefined && parseDuration(text) < SHORTEST_REFRESH_MS) {
    yield { at, expected: 'a duration of at least 1s' }
  }
}

/** A slice older than `later` must have had its turn to be refreshed. */
function* afterRefresh(defaults: ConfigFile['defaults'], later: 'stale_after' | 'drop_after'): Rule {
  const set = { ...DEFAULT_TIMES, ...defaults }
  if (parseDuration(set[later]) >= parseDuration(set.refresh)) return
  const written = (name: keyof typeof DEFAULT_TIMES) =>
    defaults?.[name] === undefined ? `${name} (${set[name]} unless it is set)` : `${name}, ${set[name]}`
  yield defaults?.[later] === undefined
    ? { at: ['defaults', 'refresh'], expected: `a duration that is not longer than ${written(later)}` }
    : { at: ['defaults', later], expected: `a duration that is not shorter than ${written('refresh')}` }
}

/** What is wrong with the durations of a configuration, except those of `storage.retention`. */
export function* timeRules({ listen, defaults, registries = [], authorization, limits }: ConfigFile): Rule {
  yield* refreshRule(defaults?.refresh, ['defaults', 'refresh'])
  yield* refreshRule(authorization?.refresh, ['authorization', 'refresh'])
  for (const [index, { refresh }] of registries.entries()) {
    yield* refreshRule(refresh, ['registries', index, 'refresh'])
  }
  if (listen?.drain !== undefined && parseDuration(listen.drain) > LONGEST_DRAIN_MS) {
    yield { at: ['listen', 'drain'], expected: 'a duration of at most 10m' }
  }
  const timeoutMs = defaults?.timeout === undefined ? SHORTEST_TIMEOUT_MS : parseDuration(defaults.timeout)
  if (timeoutMs < SHORTEST_TIMEOUT_MS || timeoutMs > LONGEST_TIMEOUT_MS) {
    yield { at: ['defaults', 'timeout'], expected: 'a duration from 100ms to 1h' }
  }
  if (limits?.walk_time !== undefined && parseDuration(limits.walk_time) < SHORTEST_REFRESH_MS) {
    yield { at: ['limits', 'walk_time'], expected: 'a duration of at least 1s' }
  }
  yield* afterRefresh(defaults, 'drop_after')
  yield* afterRefresh(defaults, 'stale_after')
}

export type Limits = {
  rowsPerUpstream: number
  /** Of one row's JSON. */
  rowBytes: number
  /** Of one answer of an upstream, decoded. */
  pageBytes: number
  providerDomainsPerUpstream: number
  /** Of all provider files that are held. */
  providerBytes: number
  /** Of everything that upstreams' rows occupy together: slices in use and walks under way. */
  memoryBytes: number
  /** Of all answers that are being read at once, decoded. */
  underWayBytes: number
  /** From the first page of a walk to its last. */
  walkMs: number
}

const DEFAULT_LIMITS = {
  rows_per_upstream: 2_000_000,
  row_bytes: '256KiB',
  page_bytes: '32MiB',
  provider_domains_per_upstream: 10_000,
  provider_bytes: '1GiB',
  memory: '8GiB',
  under_way: '512MiB',
  walk_time: '2h',
}

export function toLimits(limits: ConfigFile['limits']): Limits {
  const set = { ...DEFAULT_LIMITS, ...limits }
  return {
    rowsPerUpstream: set.rows_per_upstream,
    rowBytes: parseSize(set.row_bytes),
    pageBytes: parseSize(set.page_bytes),
    providerDomainsPerUpstream: set.provider_domains_per_upstream,
    providerBytes: parseSize(set.provider_bytes),
    memoryBytes: parseSize(set.memory),
    underWayBytes: parseSize(set.under_way),
    walkMs: parseDuration(set.walk_time),
  }
}

/** Below these nothing could pass. */
const LEAST = { row_bytes: '1KiB', page_bytes: '64KiB', provider_bytes: '1MiB', memory: '16MiB' } as const

/** What is bounded by the first is part of what is bounded by the second. */
const PARTS = [
  ['row_bytes', 'page_bytes'],
  ['page_bytes', 'under_way'],
] as const

export function* limitRules({ limits }: ConfigFile): Rule {
  for (const [name, least] of Object.entries(LEAST)) {
    const set = limits?.[name as keyof typeof LEAST]
    if (set !== undefined && parseSize(set) < parseSize(least)) {
      yield { at: ['limits', name], expected: `a size of at least ${least}` }
    }
  }
  const all = { ...DEFAULT_LIMITS, ...limits }
  for (const [part, whole] of PARTS) {
    if (limits?.[part] === undefined && limits?.[whole] === undefined) continue
    if (parseSize(all[part]) <= parseSize(all[whole])) continue
    const at = limits[part] === undefined ? whole : part
    const expected =
      at === part
        ? `a size of at most limits.${whole}, which is ${all[whole]}`
        : `a size of at least limits.${part}, which is ${all[part]}`
    yield { at: ['limits', at], expected }
  }
}

const HOUR_MS = 60 * 60 * 1_000
const WEEK_MS = 7 * 24 * HOUR_MS

type RetentionFields = NonNullable<NonNullable<ConfigFile['storage']>['retention']>

const lengths = ({ ledger, tasks, calls, answers }: RetentionFields): Partial<Retention> => ({
  ...(answers !== undefined && { answersMs: parseDuration(answers) }),
  ...(calls !== undefined && { callsMs: parseDuration(calls) }),
  ...(tasks !== undefined && { tasksMs: parseDuration(tasks) }),
  ...(ledger !== undefined && { ledgerMs: parseDuration(ledger) }),
})

/** What is set, and the defaults for the rest: 24 hours for answers, 30 days for calls and tasks, the ledger for ever. */
export function toRetention(set: RetentionFields = {}): Retention {
  return { ...DEFAULT_RETENTION, ...lengths(set) }
}

/** What is wrong with it: callers rely on kept answers, and operators must have time to export what is kept. */
export function* retentionRules({ storage }: ConfigFile): Rule {
  const set = storage?.retention
  if (!set) return
  const { answersMs, callsMs } = toRetention(set)
  // The bounds of `replay_ttl_seconds` (schema protocol/get-adcp-capabilities-response).
  if (answersMs < HOUR_MS || answersMs > WEEK_MS) {
    yield { at: ['storage', 'retention', 'answers'], expected: 'a duration from 1h to 7d' }
  }
  if (set.calls !== undefined && callsMs < answersMs) {
    yield {
      at: ['storage', 'retention', 'calls'],
      expected: 'calls that are kept at least as long as answers',
    }
  }
  for (const [name, least] of [
    ['tasks', '1h'],
    ['ledger', '1d'],
  ] as const) {
    const given = set[name]
    if (given !== undefined && parseDuration(given) < parseDuration(least)) {
      yield { at: ['storage', 'retention', name], expected: `a duration of at least ${least}` }
    }
  }
}
