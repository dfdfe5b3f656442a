/** What strangers may cost: bounds on what upstreams and providers send (docs/configuration.md). */
import type { ConfigFile } from './schema.js'
import { parseDuration, parseSize } from './units.js'

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

export const DEFAULT_LIMITS = {
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
