/**
 * Durations: rules against intervals that would loop without a pause or that contradict each other, and how long finished
 * things are kept (docs/storage.md#how-much-it-grows).
 */
import { parseDuration } from '../adcp/duration.js'
import { DEFAULT_RETENTION, type Retention } from '../store/retention.js'
import type { ConfigPath, Rule } from './problem.js'
import type { ConfigFile } from './schema.js'

const HOUR_MS = 60 * 60 * 1_000
const WEEK_MS = 7 * 24 * HOUR_MS
const SHORTEST_REFRESH_MS = 1_000
const SHORTEST_TIMEOUT_MS = 100
const LONGEST_DRAIN_MS = 10 * 60_000 // supervisors kill what takes longer
const LONGEST_TIMEOUT_MS = 60 * 60_000 // nobody waits longer, and timers overflow after 24 days

export const DEFAULT_TIMES = { timeout: '30s', refresh: '5m', stale_after: '1h', drop_after: '24h' }

/**
 * Where others serve the same address, whoever sends requests has to see first that this process is no longer ready. A
 * folder has one process: waiting would only keep the next one from starting.
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

/** Rules on how long finished things are kept: what callers were promised, and what an operator must have time to export. */
export function* retentionRules({ storage }: ConfigFile): Rule {
  const set = storage?.retention
  if (!set) return
  const { answersMs, callsMs } = toRetention(set)
  // The bounds of `replay_ttl_seconds` (schema protocol/get-adcp-capabilities-response).
  if (answersMs < HOUR_MS || answersMs > WEEK_MS) {
    yield { at: ['storage', 'retention', 'answers'], expected: 'a duration from 1h to 7d' }
  }
  if (callsMs < answersMs) {
    const at = ['storage', 'retention', set.calls === undefined ? 'answers' : 'calls']
    yield { at, expected: 'calls that are kept at least as long as answers' }
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
