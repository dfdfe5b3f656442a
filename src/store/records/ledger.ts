/**
 * What was activated and deactivated, by whom, where, at which price, and with which outcome. An active entry is never
 * deleted, the others only after a time that the operator sets: a handle that was activated must stay resolvable
 * (docs/decisions.md#handles).
 *
 * An entry is past when it failed, or when its caller asked for exactly the same again later. What is on is told by the others: there
 * are as many as different requests, however often they are repeated.
 */
import { type Selectable, sql } from 'kysely'
import { signalPart } from '../../merge/identity.js'
import { inOwnTurns } from '../../process/portion-turns.js'
import type { InPortions } from '../../process/portions.js'
import type { ActivationTable, Db, SqlDialect } from '../database/database.js'

export type Action = 'activate' | 'deactivate'

type Outcome =
  | 'pending' // requested; the upstream's answer is not known yet
  | 'submitted' // the upstream works on it
  | 'completed'
  | 'failed'
  | 'superseded' // a later, opposite request replaced it before the upstream answered
  | 'unknown' // the upstream did not answer while repeating was safe

export type NewEntry = {
  /** The id of the call that carries it out. */
  id: string
  caller: string
  /** The caller's account reference, canonical JSON. */
  account?: string
  action: Action
  /** As the caller sent it. */
  handle: string
  signalHandle: string
  offerHandle: string
  /** Our handles, as published, and the upstream's own. */
  pricingOptionId?: string
  upstreamOptionId?: string
  upstream: string
  agentUrl: string
  /** The upstream's own segment id and account reference. */
  segmentId: string
  upstreamAccount?: unknown
  destinations: readonly unknown[]
  /** How the upstream sees the caller: by a credential of the caller's own, or by the one that callers share. */
  seenAs: 'own' | 'shared'
  /** The call goes with a credential, and never in nobody's name. */
  isCredentialed?: true
  /** The number of the job that carries it out: a later request has a higher one. */
  seq: number
}

export type Entry = NewEntry & {
  outcome: Outcome
  /** The upstream's deployments in our terms, without activation keys. */
  deployments?: readonly unknown[]
  error?: unknown
  taskId?: string
  createdAt: number
  updatedAt: number
}

export type Settlement = {
  outcome: Exclude<Outcome, 'pending'>
  deployments?: readonly unknown[]
  error?: unknown
  taskId?: string
}

export type LedgerFilter = {
  caller?: string
  upstream?: string
  /** A signal's or an offer's handle. */
  handle?: string
  action?: Action
  outcome?: Outcome
  /** Instants in ms since the epoch: from `since` (inclusive) to `until` (exclusive). */
  since?: number
  until?: number
}

/** Where a page of the ledger ended: the next page starts after it. Entries of the first release have no number (0), but an id. */
type LedgerPosition = Pick<Entry, 'createdAt' | 'seq' | 'id'>

/** Up to where old entries were looked at. */
export type ForgetPosition = Pick<Entry, 'createdAt' | 'id'>

export type Ledger = {
  recordAll(entries: readonly NewEntry[]): Promise<void>
  /** The outcomes of entries, by their ids. */
  settleAll(settlements: ReadonlyMap<string, Settlement>): Promise<void>
  get(id: string): Promise<Entry | undefined>
  /** Newest first, also within one millisecond; at most `limit`, itself at most 1,000. */
  query(filter: LedgerFilter, limit: number, after?: LedgerPosition): Promise<Entry[]>
  /** The caller's entries for a signal's or an offer's handle that are not past, the latest request first. */
  history(caller: string, handle: string): Promise<Entry[]>
  /** All callers' entries for one segment of an agent that are not past, the latest request first. */
  ofSegment(agentUrl: string, segmentId: string): Promise<Entry[]>
  /** Whether a deactivation ever left a segment of an agent on somewhere. */
  wasLeftOn(agentUrl: string, segmentId: string): Promise<boolean>
  /**
   * Looks at so many entries made before a time, oldest first and from `after` on, and deletes those on which nothing rests, as far as
   * they have not changed since. Returns the position where it ended; undefined when none is left.
   */
  forget(
    before: number,
    limit: number,
    ended: EndedAmong,
    after?: ForgetPosition,
  ): Promise<ForgetPosition | undefined>
}

/** Which of one segment's entries nothing rests on any more, of those that are `old`. `entries`: as `ofSegment` gives them. */
export type EndedAmong = (entries: readonly Entry[], isOld: (entry: Entry) => boolean) => InPortions<Entry[]>

const LEDGER_PAGE = 1_000
const SEGMENT_PAGE = 300 // thousands may have one segment on: what is read at once takes a few milliseconds
const LEFT_ON = '%"is_live":true%' // in the deployments of a deactivation
const NOT_PAST = sql.lit(0) // written out, as in the condition of the index

/** Entries that ask for exactly the same, the newest first; one that was superseded tells less than one that was not. */
const FROM_THE_NEWEST = sql`partition by entry.caller, entry.account, entry.action, entry.offer_handle,
  entry.pricing_option_id, entry.agent_url, entry.segment_id, entry.upstream_account, entry.destinations, entry.seen_as,
  entry.outcome = 'superseded' order by entry.seq desc, entry.created_at desc, entry.id desc`

type EntryRow = Selectable<ActivationTable> & {
  /** What the job knows of the call, where the entry does not say how it goes. */
  call?: string | null
}

const isCredentialed = ({ credentialed, call }: EntryRow) =>
  credentialed === 1 || call?.includes('"isCredentialed":true') === true

function fromRow(row: EntryRow): Entry {
  return {
    id: row.id,
    caller: row.caller,
    ...(row.account !== null && { account: row.account }),
    action: row.action as Action,
    handle: row.handle,
    signalHandle: row.signal_handle,
    offerHandle: row.offer_handle,
    ...(row.pricing_option_id !== null && { pricingOptionId: row.pricing_option_id }),
    ...(row.upstream_option_id !== null && { upstreamOptionId: row.upstream_option_id }),
    upstream: row.upstream,
    agentUrl: row.agent_url,
    segmentId: row.segment_id,
    ...(row.upstream_account !== null && { upstreamAccount: JSON.parse(row.upstream_account) as unknown }),
    destinations: JSON.parse(row.destinations) as unknown[],
    seenAs: row.seen_as as Entry['seenAs'],
    ...(isCredentialed(row) && { isCredentialed: true }),
    seq: row.seq,
    outcome: row.outcome as Outcome,
    ...(row.deployments !== null && { deployments: JSON.parse(row.deployments) as unknown[] }),
    ...(row.error !== null && { error: JSON.parse(row.error) as unknown }),
    ...(row.task_id !== null && { taskId: row.task_id }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value))

export function createLedger(db: Db, now: () => number, dialect: SqlDialect): Ledger {
  async function recordAll(entries: readonly NewEntry[]): Promise<void> {
    if (entries.length === 0) return
    const at = now()
    const rows = entries.map(({ upstreamAccount, destinations, ...entry }) => ({
      ...entry,
      ...{ upstreamAccount: json(upstreamAccount), destinations: JSON.stringify(destinations) },
    }))
    await sql`insert into activations (id, caller, account, action, handle, signal_handle, offer_handle, pricing_option_id,
        upstream_option_id, upstream, agent_url, segment_id, upstream_account, destinations, seen_as, credentialed, seq,
        outcome, created_at, updated_at)
      select value->>'id', value->>'caller', value->>'account', value->>'action', value->>'handle',
        value->>'signalHandle', value->>'offerHandle', value->>'pricingOptionId', value->>'upstreamOptionId',
        value->>'upstream', value->>'agentUrl', value->>'segmentId', value->>'upstreamAccount', value->>'destinations',
        value->>'seenAs', case when value->>'isCredentialed' is null then 0 else 1 end, cast(value->>'seq' as bigint),
        'pending', cast(${at} as bigint), cast(${at} as bigint)
      from ${dialect.given(rows)}`.execute(db)
  }

  async function settleAll(settlements: ReadonlyMap<string, Settlement>): Promise<void> {
    if (settlements.size === 0) return
    const rows = [...settlements].map(([id, { outcome, deployments, error, taskId }]) => ({
      ...{ id, outcome, deployments: json(deployments), error: json(error), taskId },
    }))
    await sql`update activations set outcome = value->>'outcome', deployments = value->>'deployments',
        error = value->>'error', task_id = coalesce(value->>'taskId', task_id), updated_at = ${now()},
        past = case value->>'outcome' when 'failed' then 1 else 0 end
      from ${dialect.given(rows)} where activations.id = value->>'id'`.execute(db)
    const touched = sql`(select distinct agent_url, segment_id, caller from activations
      where id in (${sql.join([...settlements.keys()])}))`
    await sql`update activations set past = 1 where id in (select id from (
      select entry.id, row_number() over (${FROM_THE_NEWEST}) as place
      from ${touched} as touched join activations as entry on entry.agent_url = touched.agent_url
        and entry.segment_id = touched.segment_id and entry.caller = touched.caller and entry.past = ${NOT_PAST}
      where entry.outcome not in ('pending', 'submitted', 'failed')) as settled where place > 1)`.execute(db)
  }

  async function get(id: string): Promise<Entry | undefined> {
    const row = await db.selectFrom('activations').selectAll().where('id', '=', id).executeTakeFirst()
    return row && fromRow(row)
  }

  async function query(filter: LedgerFilter, limit: number, after?: LedgerPosition): Promise<Entry[]> {
    let select = db
      .selectFrom('activations')
      .selectAll()
      .orderBy('created_at', 'desc')
      .orderBy('seq', 'desc') // ids are random: of two entries of one millisecond they say nothing
      .orderBy('id', 'desc')
      .limit(Math.min(limit, LEDGER_PAGE))
    const { caller, upstream, handle, action, outcome, since, until } = filter
    if (caller !== undefined) select = select.where('caller', '=', caller)
    if (upstream !== undefined) select = select.where('upstream', '=', upstream)
    if (action !== undefined) select = select.where('action', '=', action)
    if (outcome !== undefined) select = select.where('outcome', '=', outcome)
    if (since !== undefined) select = select.where('created_at', '>=', since)
    if (until !== undefined) select = select.where('created_at', '<', until)
    if (handle !== undefined) {
      const signal = signalPart(handle) // indexed; an offer's handle begins with its signal's
      select = select.where('signal_handle', '=', signal)
      if (handle !== signal) select = select.where('offer_handle', '=', handle)
    }
    if (after) {
      select = select.where(
        sql<boolean>`(created_at, seq, id) < (${after.createdAt}, ${after.seq}, ${after.id})`,
      )
    }
    return (await select.execute()).map(fromRow)
  }

  /** Entries of the first release have no number: they are older than all that have one. */
  async function latest(select: ReturnType<typeof entries>): Promise<Entry[]> {
    const inOrder = select.orderBy('seq', 'desc').orderBy('created_at', 'desc').orderBy('id', 'desc')
    return (await inOrder.execute()).map(fromRow)
  }
  /** The release before, which may run beside this one, marks no failed entry, and says of a credential in the job alone. */
  const entries = () =>
    db
      .selectFrom('activations')
      .selectAll()
      .select(
        sql<string | null>`case when credentialed is null
          then (select data from jobs where jobs.id = activations.id) end`.as('call'),
      )
      .where('past', '=', NOT_PAST)
      .where('outcome', '!=', 'failed')

  const inSegment = (agentUrl: string, segmentId: string) =>
    entries().where('agent_url', '=', agentUrl).where('segment_id', '=', segmentId)

  const ofSegment = (agentUrl: string, segmentId: string) => latest(inSegment(agentUrl, segmentId))

  /** The same, read page by page. What is asked for meanwhile is not among them. */
  async function pagesOfSegment(agentUrl: string, segmentId: string): Promise<Entry[]> {
    const all: Entry[] = []
    for (let page: Entry[] | undefined; page === undefined || page.length === SEGMENT_PAGE; ) {
      const last = all.at(-1)
      let next = inSegment(agentUrl, segmentId).limit(SEGMENT_PAGE)
      if (last) {
        const { seq, createdAt, id } = last
        next = next.where(sql<boolean>`(seq, created_at, id) < (${seq}, ${createdAt}, ${id})`)
      }
      page = await latest(next)
      all.push(...page)
    }
    return all
  }

  async function wasLeftOn(agentUrl: string, segmentId: string): Promise<boolean> {
    const found = await db
      .selectFrom('activations')
      .select('id')
      .where('agent_url', '=', agentUrl)
      .where('segment_id', '=', segmentId)
      .where('past', '=', NOT_PAST)
      .where('action', '=', 'deactivate')
      .where('outcome', '=', 'completed')
      .where('deployments', 'like', LEFT_ON)
      .limit(1)
      .executeTakeFirst()
    return found !== undefined
  }

  async function forget(before: number, limit: number, ended: EndedAmong, after?: ForgetPosition) {
    let oldest = db
      .selectFrom('activations')
      .select(['id', 'created_at'])
      .where('created_at', '<=', before)
      .orderBy('created_at')
      .orderBy('id')
      .limit(limit)
    if (after) oldest = oldest.where(sql<boolean>`(created_at, id) > (${after.createdAt}, ${after.id})`)
    const page = await oldest.execute()
    const last = page.at(-1)
    if (!last) return undefined
    const ids = page.map(({ id }) => id)
    await db
      .deleteFrom('activations')
      .where('id', 'in', ids)
      .where('updated_at', '<=', before)
      .where((eb) => eb.or([eb('past', '=', 1), eb('outcome', 'in', ['superseded', 'failed'])]))
      .execute()
    // A segment is looked at once in each round, with its oldest entry; without a deactivation all of it is on.
    const { rows: segments } = await sql<{ agent_url: string; segment_id: string }>`
      select old.agent_url, old.segment_id from activations as old
      where old.id in (${sql.join(ids)}) and old.past = ${NOT_PAST}
        and not exists (select 1 from activations as older where older.agent_url = old.agent_url
          and older.segment_id = old.segment_id and older.past = ${NOT_PAST}
          and (older.created_at, older.id) < (old.created_at, old.id))
        and exists (select 1 from activations as ending where ending.agent_url = old.agent_url
          and ending.segment_id = old.segment_id and ending.past = ${NOT_PAST}
          and ending.action = 'deactivate')`.execute(db)
    for (const { agent_url, segment_id } of segments) {
      const kept = await pagesOfSegment(agent_url, segment_id)
      const over = await inOwnTurns(ended(kept, ({ updatedAt }) => updatedAt <= before))
      // The oldest first: what was switched off never stands without the deactivation that ended it.
      for (let at = 0; at < over.length; at += limit) {
        const some = over.slice(at, at + limit).map(({ id }) => id)
        await db.deleteFrom('activations').where('id', 'in', some).where('updated_at', '<=', before).execute()
      }
    }
    return page.length === limit ? { createdAt: last.created_at, id: last.id } : undefined
  }

  return {
    ...{ recordAll, settleAll, get, query, ofSegment, wasLeftOn, forget },
    history: (caller, handle) =>
      latest(entries().where('caller', '=', caller).where('signal_handle', '=', signalPart(handle))),
  }
}

/** Every entry that matches, newest first, read page by page. */
export async function* ledgerEntries(
  ledger: Pick<Ledger, 'query'>,
  filter: LedgerFilter,
): AsyncGenerator<Entry> {
  let after: Entry | undefined
  do {
    const page = await ledger.query(filter, LEDGER_PAGE, after)
    yield* page
    after = page.length === LEDGER_PAGE ? page.at(-1) : undefined
  } while (after)
}
