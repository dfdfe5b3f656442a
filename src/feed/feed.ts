/**
 * The feed as callers read it: views of the current snapshot, versions that say exactly what a caller would receive, page
 * walks that never tear (DESIGN 5.5; specification, Wholesale conditional-fetch rules). Reads are synchronous: a snapshot
 * is swapped between two of them, never during one.
 */
import { type AdcpError, type AdcpWarning, adcpError } from '../adcp/error.js'
import { type Criteria, criteriaOf } from './canonical.js'
import { createCursors } from './cursor.js'
import { digestText } from './digest.js'
import { countBelow, WORDS } from './keys.js'
import { createLayer, type Held, type Retention } from './layer.js'
import { entryOfRef, type Resolved, resolveHandle } from './lookup.js'
import { createPages } from './page.js'
import type {
  CacheScope,
  LookupQuery,
  Page,
  Reader,
  Selection,
  Versions,
  WholesaleAnswer,
  WholesaleQuery,
} from './query.js'
import type { Snapshot } from './snapshot.js'

export type FeedOptions = {
  /** Shared by all replicas, and kept over restarts. */
  cursorSecret: string | Uint8Array
  retain: Retention
}

export type Feed = ReturnType<typeof createFeed>

/** A reader's part of a snapshot. */
export type Seen = {
  snapshot: Snapshot
  /** In key order. */
  entries: Uint32Array
  criteria: Criteria
  versions: Versions
  warnings: AdcpWarning[]
}

/** A held snapshot and the scope in which it answers. */
type Layered = { held: Held; scope: CacheScope }

const PRICE_FILTERS = ['max_cpm', 'max_percent'] as const
const PLAIN_NAME = /^[A-Za-z0-9_]{1,64}$/

function unknownFilterWarnings({ unknown }: Criteria): AdcpWarning[] {
  return unknown.map((name) => ({
    code: 'UNKNOWN_FILTER',
    severity: 'warning',
    message: 'This agent does not know this filter: the answer is not restricted by it.',
    field: PLAIN_NAME.test(name) ? `filters.${name}` : 'filters', // never echo what could be anything
  }))
}

/** A filter by prices that the reader may not see would tell them: it is named and not applied. */
function priceFilterWarnings({ filters = {} }: Selection, reader: Reader): AdcpWarning[] {
  if (reader.visibility === 'full') return []
  return PRICE_FILTERS.filter((name) => filters[name] !== undefined).map((name) => ({
    code: 'PRICING_UNAVAILABLE',
    severity: 'warning',
    message: 'Prices are shown to authenticated callers only: the answer is not restricted by this filter.',
    field: `filters.${name}`,
  }))
}

function badCursor(): { kind: 'refused'; error: AdcpError } {
  const error = adcpError('INVALID_REQUEST', 'The cursor is not one that this query was given.', {
    field: 'pagination.cursor',
    suggestion: 'Restart from the first page, without a cursor.',
  })
  return { kind: 'refused', error }
}

const NOT_READY: { kind: 'refused'; error: AdcpError } = {
  kind: 'refused',
  error: adcpError('SERVICE_UNAVAILABLE', 'The first snapshot of the feed is still being built.', {
    retry_after: 1,
  }),
}

export function createFeed({ cursorSecret, retain }: FeedOptions) {
  const cursors = createCursors(cursorSecret)
  const publicLayer = createLayer(retain)
  const overlays = new Map<string, ReturnType<typeof createLayer>>()

  /** Makes a snapshot the current one of the public layer, or of an account's. `now` in ms. */
  function publish(snapshot: Snapshot, now: number, account?: string): void {
    if (account === undefined) {
      publicLayer.publish(snapshot, now)
      return
    }
    const layer = overlays.get(account) ?? createLayer(retain)
    overlays.set(account, layer)
    layer.publish(snapshot, now)
  }

  /** Forgets an account's overlay: its readers are answered from the public layer. */
  function withdraw(account: string): void {
    overlays.delete(account)
  }

  function overlayOf(account: string | undefined) {
    return account === undefined ? undefined : overlays.get(account)
  }

  /** The overlay only where its answer for this tuple differs from the public one (DESIGN 5.6). */
  function layered(criteria: Criteria, reader: Reader): Layered | undefined {
    const open = publicLayer.current()
    const overlay = overlayOf(reader.account)?.current()
    if (!open || !overlay) return open && { held: open, scope: 'public' }
    const content = (held: Held) => {
      const { view, secret } = held.see(criteria, reader)
      return `${view.structure} ${view.pricing} ${secret}`
    }
    return content(open) === content(overlay)
      ? { held: open, scope: 'public' }
      : { held: overlay, scope: 'account' }
  }

  function versions(mode: string, { held, scope }: Layered, criteria: Criteria, reader: Reader): Versions {
    const { view, secret } = held.see(criteria, reader)
    const account = scope === 'account' ? reader.account : ''
    const token = (...content: string[]) =>
      digestText(JSON.stringify([mode, scope, account, reader.visibility, criteria.tuple, ...content]))
    const feedVersion = token('feed', view.structure, secret)
    // Without prices in sight there is no version of them either: it would tell that they moved.
    return reader.visibility === 'full'
      ? { feedVersion, pricingVersion: token('pricing', view.pricing), cacheScope: scope }
      : { feedVersion, cacheScope: scope }
  }

  function warnings(query: Selection, criteria: Criteria, reader: Reader): AdcpWarning[] {
    return [...unknownFilterWarnings(criteria), ...priceFilterWarnings(query, reader)]
  }

  /** Entries as a page's body, with what must be said about them. */
  function body(
    { held }: Layered,
    entries: Uint32Array,
    query: Selection,
    criteria: Criteria,
    reader: Reader,
  ) {
    const { grants } = held.see(criteria, reader)
    const pages = createPages(held.snapshot, {
      criteria,
      seesPrices: reader.visibility === 'full',
      grants,
      ...(query.fields ? { fields: query.fields } : {}),
    })
    return {
      kind: 'page' as const,
      rows: pages.rows(entries),
      count: entries.length,
      warnings: [...warnings(query, criteria, reader), ...pages.partialCoverage(entries)],
    }
  }

  function unchanged(query: WholesaleQuery, current: Versions): boolean {
    if (query.ifFeedVersion === undefined || query.ifFeedVersion !== current.feedVersion) return false
    return query.ifPricingVersion === undefined || query.ifPricingVersion === current.pricingVersion
  }

  /** Enumerates the feed. `now` in ms. */
  function wholesale(query: WholesaleQuery, reader: Reader, now: number): WholesaleAnswer {
    const criteria = criteriaOf(query)
    const current = layered(criteria, reader)
    if (!current) return NOT_READY
    const binding = JSON.stringify([criteria.tuple, reader.caller, reader.visibility, reader.account ?? ''])
    const place = query.cursor === undefined ? undefined : cursors.read(query.cursor, binding)
    if (query.cursor !== undefined && !place) return badCursor()

    const currentVersions = versions('wholesale', current, criteria, reader)
    if (unchanged(query, currentVersions)) return { kind: 'unchanged', ...currentVersions }

    // The walk stays on its snapshot while that is retained; then it goes on in the current one, whose version tells.
    const pinned = place && retained(place.snapshot, reader, now)
    const from = pinned ?? current
    const { view } = from.held.see(criteria, reader)
    const { snapshot } = from.held
    const first = place ? firstAfter(snapshot, view.entries, place.after) : 0
    const entries = view.entries.subarray(first, first + query.maxResults)
    const last = entries.at(-1)
    const more = first + entries.length < view.entries.length && last !== undefined
    return {
      ...body(from, entries, query, criteria, reader),
      ...(pinned ? versions('wholesale', from, criteria, reader) : currentVersions),
      total: view.entries.length,
      ...(more
        ? { cursor: cursors.write({ snapshot: snapshot.id, after: keyAt(snapshot, last) }, binding) }
        : {}),
    }
  }

  function retained(id: string, reader: Reader, now: number): Layered | undefined {
    const open = publicLayer.find(id, now)
    if (open) return { held: open, scope: 'public' }
    const own = overlayOf(reader.account)?.find(id, now)
    return own && { held: own, scope: 'account' }
  }

  /** The named signals, in the order asked; what is not there or filtered out is left out, and is no error. */
  function lookup(query: LookupQuery, reader: Reader): Page | { kind: 'refused'; error: AdcpError } {
    const criteria = criteriaOf(query)
    const from = layered(criteria, reader)
    if (!from) return NOT_READY
    const { view } = from.held.see(criteria, reader)
    const { snapshot } = from.held
    const named = new Set(query.refs.map((ref) => entryOfRef(snapshot, ref)))
    const entries = Uint32Array.from(
      [...named].filter((entry) => entry >= 0 && includes(view.entries, entry)),
    )
    return {
      ...body(from, entries, query, criteria, reader),
      ...versions('lookup', from, criteria, reader),
      total: entries.length,
    }
  }

  /** What a reader sees of a selection, for answers in another order than the feed's: brief discovery. */
  function see(query: Selection, reader: Reader): Seen | undefined {
    const criteria = criteriaOf(query)
    const from = layered(criteria, reader)
    if (!from) return undefined
    return {
      snapshot: from.held.snapshot,
      entries: from.held.see(criteria, reader).view.entries,
      criteria,
      versions: versions('brief', from, criteria, reader),
      warnings: warnings(query, criteria, reader),
    }
  }

  /** Where a handle of ours leads, for whoever activates it; an account's overlay first. */
  function resolve(handle: string, account?: string): Resolved | undefined {
    const layers = [overlayOf(account)?.current(), publicLayer.current()]
    for (const held of layers) {
      const resolved = held && resolveHandle(held.snapshot, handle)
      if (resolved) return resolved
    }
    return undefined
  }

  return {
    publish,
    withdraw,
    wholesale,
    lookup,
    see,
    resolve,
    /** The current public snapshot; undefined until the first is published. */
    current: () => publicLayer.current()?.snapshot,
    /** A snapshot that is still retained. */
    retained: (id: string, now: number) => publicLayer.find(id, now)?.snapshot,
  }
}

function keyAt(snapshot: Snapshot, entry: number): Uint32Array {
  return snapshot.keys.slice(entry * WORDS, (entry + 1) * WORDS)
}

/** Place in `entries`, which are sorted, of the first whose key is beyond `key`. */
function firstAfter(snapshot: Snapshot, entries: Uint32Array, key: Uint32Array): number {
  const below = countBelow(snapshot.keys, snapshot.count, key)
  const standsThere = below < snapshot.count && keyAt(snapshot, below).every((word, at) => word === key[at])
  return lowerBound(entries, standsThere ? below + 1 : below)
}

function lowerBound(entries: Uint32Array, entry: number): number {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((entries[middle] as number) < entry) low = middle + 1
    else high = middle
  }
  return low
}

function includes(entries: Uint32Array, entry: number): boolean {
  return entries[lowerBound(entries, entry)] === entry
}
