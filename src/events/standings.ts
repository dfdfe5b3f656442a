/**
 * How the feed stands for each kind of reader, and how it stood shortly before, so that one comparison serves all who see it
 * alike. A question about an earlier state that is no longer known is answered with one event: many things changed.
 */
import type { Feed } from '../feed/feed.js'
import { grantsName } from '../feed/grants.js'
import type { Reader } from '../feed/query.js'
import type { Clock } from '../net/clock.js'
import { createNumbers } from '../process/memory.js'
import { inOwnTurns } from '../process/portion-turns.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import {
  type AppliesTo,
  bulkEvent,
  type ChangeSet,
  changesBetween,
  createEventIds,
  eventsBetween,
  type FeedEvent,
  type FeedStanding,
  type FeedTokens,
  mostSingles,
} from './changes.js'

/** Earlier snapshots of a layer that changes are told from, and for how long, ms. */
const KEPT = 4
const KEPT_MS = 5 * 60_000
const KEPT_COMPARISONS = 16

/** What a subscriber was told of last, by layer; without `account` its account was answered from the public layer. */
export type ToldVersions = { public: FeedTokens; account?: FeedTokens }

/** The reader of a subscriber's feed: the public layer, and its account's where that has one. */
export type Eyes = {
  open: Reader
  own?: Reader
  account: string
  /** Whom the account stands for at upstreams, in a word: its name may be given to another one. */
  standsFor?: string
}

type StandingsOptions = {
  feed: Pick<Feed, 'see' | 'prepared'>
  clock: Clock
  /** Whether readers see what this process shows also at all others. Default: always. */
  isEverywhere?(): boolean
}

const same = (a: FeedTokens, b: FeedTokens) => a.feed === b.feed && a.pricing === b.pricing
const readerName = (reader: Reader) => JSON.stringify([grantsName(reader), reader.account ?? ''])

/** Equal for readers that see the same: what was written for another reader must not be sent. */
export const eyesName = ({ open, own, standsFor = '' }: Eyes) =>
  own ? `${readerName(own)} ${standsFor}` : readerName(open)

/** One layer as it stands for a reader. */
type ScopedStanding = FeedStanding & { scope: 'public' | 'account' }

/**
 * A layer's snapshots, the newest first, each with how it stood for its readers. Held by snapshot and not by reader: however
 * long a slow subscriber waits, and however many there are, they keep no snapshot alive that others have left behind.
 */
type LayerHistory = {
  moments: { snapshot: Snapshot; standings: Map<string, ScopedStanding> }[]
  askedAt: number
}

export function createStandings({ feed, clock, isEverywhere = () => true }: StandingsOptions) {
  const ids = createEventIds(clock.now)
  const numberOf = createNumbers()
  const layers = new Map<string, LayerHistory>() // by account; the public one has no name
  const compared = new Map<string, Promise<ChangeSet>>()
  const told = new Map<string, Promise<FeedEvent[]>>()

  function remember<T>(among: Map<string, Promise<T>>, name: string, make: () => Promise<T>): Promise<T> {
    const known = among.get(name)
    if (known) return known
    const made = make()
    among.set(name, made)
    made.catch(() => among.delete(name))
    for (const [oldest] of among) if (among.size > KEPT_COMPARISONS) among.delete(oldest)
    return made
  }

  const layerName = ({ scope }: ScopedStanding, { account = '' }: Reader) =>
    scope === 'account' ? account : ''

  /** `KEPT_MS` after a change: forgets the snapshot that was replaced, and layers that nobody had asked about for as long before it. */
  function forget(replaced: Snapshot | undefined, changedAt: number): void {
    for (const [name, layer] of layers) {
      layer.moments = layer.moments.filter((one) => one.snapshot !== replaced)
      if (layer.askedAt < changedAt - KEPT_MS) layers.delete(name)
    }
  }

  function keep(reader: Reader, standing: ScopedStanding): void {
    const name = layerName(standing, reader)
    const now = clock.now()
    const layer = layers.get(name) ?? { moments: [], askedAt: now }
    layers.set(name, layer)
    layer.askedAt = now
    const { snapshot } = standing
    let moment = layer.moments.find((one) => one.snapshot === snapshot)
    if (!moment) {
      moment = { snapshot, standings: new Map() }
      const replaced = layer.moments[0]?.snapshot
      layer.moments = [moment, ...layer.moments].slice(0, KEPT)
      clock.after(KEPT_MS, () => forget(replaced, now))
    }
    moment.standings.set(readerName(reader), standing)
  }

  /** How a layer stood for a reader at these tokens, if that is still known. */
  function stoodAt(reader: Reader, tokens: FeedTokens, standing: ScopedStanding): ScopedStanding | undefined {
    for (const { standings } of layers.get(layerName(standing, reader))?.moments ?? []) {
      const found = standings.get(readerName(reader))
      if (found && same(found.tokens, tokens)) return found
    }
    return undefined
  }

  /** Undefined while there is nothing to be read everywhere, or the reader's account is being exchanged. */
  async function standingOf(reader: Reader): Promise<ScopedStanding | undefined> {
    const at = await feed.prepared({}, reader)
    const seen = isEverywhere() ? feed.see({}, reader, { mode: 'wholesale', at }) : undefined
    if (!seen || seen.gaps.some(({ kind }) => kind === 'other_account')) return undefined
    const { snapshot, entries, grants, criteria, versions } = seen
    const { feedVersion, pricingVersion = '', cacheScope: scope } = versions
    const standing: ScopedStanding = {
      snapshot,
      entries,
      grants,
      criteria,
      scope,
      tokens: { feed: feedVersion, pricing: pricingVersion },
    }
    keep(reader, standing)
    return standing
  }

  async function compare(before: Snapshot, after: Snapshot, most: number): Promise<ChangeSet> {
    return await remember(compared, `${before.id} ${after.id} ${most}`, () =>
      inOwnTurns(changesBetween(before, after, most)),
    )
  }

  /** The events that lead a reader from these tokens to how the feed stands, with ids above `above`. */
  async function eventsOf(
    reader: Reader,
    { from: previous, to: standing }: { from: FeedTokens; to: ScopedStanding },
    appliesTo: AppliesTo,
    { isBulk, above }: { isBulk: boolean; above: string },
  ): Promise<FeedEvent[]> {
    const bulk = (count: number) =>
      bulkEvent({ id: ids.next(), at: clock.now(), appliesTo }, { previous, version: standing.tokens, count })
    if (isBulk) return [bulk(standing.entries.length)]
    // Content may come back, and its tokens with it: what leads there then has happened anew.
    const moment = [numberOf(standing.snapshot), standing.tokens]
    const name = JSON.stringify([readerName(reader), previous, moment, appliesTo])
    // Others may have been told of it before this one was told something else: then it is told by new events.
    const earlier = told.get(name)
    const isBelow = ((await earlier)?.[0]?.id ?? '') <= above
    if (isBelow && told.get(name) === earlier) told.delete(name)
    return await remember(told, name, async () => {
      const before = stoodAt(reader, previous, standing)
      if (!before) return [bulk(standing.entries.length)]
      const changes = await compare(
        before.snapshot,
        standing.snapshot,
        mostSingles(standing.entries.length) * 2,
      )
      return await inOwnTurns(
        eventsBetween(before, standing, changes, { appliesTo, newId: ids.next, at: clock.now() }),
      )
    })
  }

  /** How the feed stands now for a subscriber. */
  async function current({ open, own }: Eyes): Promise<ToldVersions | undefined> {
    const everybody = await standingOf(open)
    const account = own && (await standingOf(own))
    if (!everybody || (own && !account)) return undefined
    return { public: everybody.tokens, ...(account?.scope === 'account' && { account: account.tokens }) }
  }

  /**
   * What leads from what a subscriber was told last to how the feed stands now; undefined when that is the same, or cannot be
   * said yet. `isBulk`: in one event for each layer, whether it changed or not. `lastId`: of the event that was made for it
   * last, perhaps by another process.
   */
  async function since(
    before: ToldVersions,
    { open, own, account }: Eyes,
    isBulk = false,
    lastId = '',
  ): Promise<{ versions: ToldVersions; events: FeedEvent[] } | undefined> {
    ids.follow(lastId)
    const everybody = await standingOf(open)
    const standing = own && (await standingOf(own))
    if (!everybody || (own && !standing)) return undefined
    const events: FeedEvent[] = []
    async function tell(
      reader: Reader,
      change: { from: FeedTokens; to: ScopedStanding },
      appliesTo: AppliesTo,
      asBulk: boolean,
    ): Promise<void> {
      const above = events.at(-1)?.id ?? lastId
      events.push(...(await eventsOf(reader, change, appliesTo, { isBulk: asBulk, above })))
    }
    if (isBulk || !same(before.public, everybody.tokens)) {
      await tell(open, { from: before.public, to: everybody }, { scope: 'public' }, isBulk)
    }
    const isOwn = standing?.scope === 'account'
    const appliesTo = { scope: 'account', account_ids: [account] } as const
    if (own && standing && (isOwn || before.account)) {
      // A layer that begins or ends is read again as a whole: rows of the other one stood, or stand, in its place.
      const previous = before.account ?? before.public
      const isTurned = isOwn !== (before.account !== undefined)
      if (isBulk || isTurned || !same(previous, standing.tokens)) {
        await tell(own, { from: previous, to: standing }, appliesTo, isBulk || isTurned)
      }
    } else if (before.account) {
      await tell(open, { from: before.account, to: everybody }, appliesTo, true)
    }
    if (events.length === 0) return undefined
    return {
      versions: { public: everybody.tokens, ...(isOwn && standing && { account: standing.tokens }) },
      events,
    }
  }

  return {
    current,
    since,
    /** Snapshots that are kept to be compared with. */
    snapshots: () =>
      new Set([...layers.values()].flatMap(({ moments }) => moments.map((one) => one.snapshot))).size,
  }
}

export type Standings = ReturnType<typeof createStandings>

/** Whether two are the same for a subscriber. */
export function sameVersions(a: ToldVersions, b: ToldVersions): boolean {
  if (!same(a.public, b.public)) return false
  return a.account && b.account ? same(a.account, b.account) : a.account === b.account
}
