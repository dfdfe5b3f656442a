/** Defaults of durations, and rules against intervals that would loop without a pause or that contradict each other. */
import { parseDuration } from '../adcp/duration.js'
import type { ConfigPath, Rule } from './problem.js'
import type { ConfigFile } from './schema.js'

const SHORTEST_REFRESH_MS = 1_000
const SHORTEST_TIMEOUT_MS = 100
const LONGEST_DRAIN_MS = 10 * 60_000 // supervisors kill what takes longer
const LONGEST_TIMEOUT_MS = 60 * 60_000 // nobody waits longer, and timers overflow after 24 days

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
