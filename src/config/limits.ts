/** What strangers may cost: bounds on what upstreams and providers send (docs/configuration.md). */

import { parseDuration, parseSize } from '../adcp/duration.js'
import type { Rule } from './problem.js'
import type { ConfigFile } from './schema.js'

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

/** Rules on sizes: bounds so small that nothing could pass them, and bounds of a part beyond those of the whole. */
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
