/**
 * What was activated and deactivated, by whom, where, at which price, and with which outcome. An active entry is never
 * deleted, the others only after a time that the operator sets: a handle that was activated must stay resolvable
 * (docs/decisions.md#handles).
 */
import { type Selectable, sql } from 'kysely'
import { signalPart } from '../../merge/identity.js'
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
  /** The caller's newest entries for a signal's or an offer's handle, the latest request first. */
  history(caller: string, handle: string): Promise<Entry[]>
  /** All callers' newest entries for one segment of an agent, the latest request first. */
  ofSegment(agentUrl: string, segmentId: string): Promise<Entry[]>
  /** Whether a deactivation ever left a segment of an agent on somewhere. */
  wasLeftOn(agentUrl: string, segmentId: string): Promise<boolean>
  /**
   * Looks at so many entries made before a time, oldest first and from `after` on, and deletes those that have not
   * changed since and can never change again. Returns the position where it ended; undefined when none is left.
   */
  forget(before: number, limit: number, after?: ForgetPosition): Promise<ForgetPosition | undefined>
}

const LEDGER_PAGE = 1_000
const HISTORY = 1_000 // of one signal or segment: active entries are among them
const LEFT_ON = '%"is_live":true%' // in the deployments of a deactivation

function fromRow(row: Selectable<ActivationTable>): Entry {
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
        upstream_option_id, upstream, agent_url, segment_id, upstream_account, destinations, seen_as, seq, outcome,
        created_at, updated_at)
      select value->>'id', value->>'caller', value->>'account', value->>'action', value->>'handle',
        value->>'signalHandle', value->>'offerHandle', value->>'pricingOptionId', value->>'upstreamOptionId',
        value->>'upstream', value->>'agentUrl', value->>'segmentId', value->>'upstreamAccount', value->>'destinations',
        value->>'seenAs', cast(value->>'seq' as bigint), 'pending', cast(${at} as bigint), cast(${at} as bigint)
      from ${dialect.given(rows)}`.execute(db)
  }

  async function settleAll(settlements: ReadonlyMap<string, Settlement>): Promise<void> {
    if (settlements.size === 0) return
    const rows = [...settlements].map(([id, { outcome, deployments, error, taskId }]) => ({
      ...{ id, outcome, deployments: json(deployments), error: json(error), taskId },
    }))
    await sql`update activations set outcome = value->>'outcome', deployments = value->>'deployments',
        error = value->>'error', task_id = coalesce(value->>'taskId', task_id), updated_at = ${now()}
      from ${dialect.given(rows)} where activations.id = value->>'id'`.execute(db)
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
    return (await inOrder.limit(HISTORY).execute()).map(fromRow)
  }
  const entries = () => db.selectFrom('activations').selectAll()

  async function wasLeftOn(agentUrl: string, segmentId: string): Promise<boolean> {
    const found = await db
      .selectFrom('activations')
      .select('id')
      .where('agent_url', '=', agentUrl)
      .where('segment_id', '=', segmentId)
      .where('action', '=', sql.lit('deactivate')) // by the index of what was
      .where('outcome', '=', 'completed')
      .where('deployments', 'like', LEFT_ON)
      .limit(1)
      .executeTakeFirst()
    return found !== undefined
  }

  async function forget(before: number, limit: number, after?: ForgetPosition) {
    let oldest = db.selectFrom('activations').select(['id', 'created_at']).where('created_at', '<=', before)
    if (after) oldest = oldest.where(sql<boolean>`(created_at, id) > (${after.createdAt}, ${after.id})`)
    const page = await oldest.orderBy('created_at').orderBy('id').limit(limit).execute()
    const last = page.at(-1)
    if (!last) return undefined
    const past = db
      .selectFrom('activations as old')
      .select('old.id')
      .where(
        'old.id',
        'in',
        page.map(({ id }) => id),
      )
      .where('old.updated_at', '<=', before)
      .where('old.outcome', 'not in', ['pending', 'submitted'])
      // Active entries are kept: switching off must stay possible however old they are.
      .where((eb) =>
        eb.or([
          eb('old.action', '=', 'deactivate'),
          eb('old.outcome', 'in', ['failed', 'superseded']),
          eb.exists(
            eb
              .selectFrom('activations as next')
              .select('next.id')
              .whereRef('next.caller', '=', 'old.caller')
              .whereRef('next.signal_handle', '=', 'old.signal_handle')
              .whereRef('next.offer_handle', '=', 'old.offer_handle')
              .whereRef('next.destinations', '=', 'old.destinations')
              .where(sql<boolean>`next.account is not distinct from old.account`)
              .whereRef('next.created_at', '>', 'old.created_at')
              .where('next.outcome', '=', 'completed'),
          ),
        ]),
      )
    await db.deleteFrom('activations').where('id', 'in', past).execute()
    return page.length === limit ? { createdAt: last.created_at, id: last.id } : undefined
  }

  return {
    ...{ recordAll, settleAll, get, query, wasLeftOn, forget },
    history: (caller, handle) =>
      latest(entries().where('caller', '=', caller).where('signal_handle', '=', signalPart(handle))),
    ofSegment: (agentUrl, segmentId) =>
      latest(entries().where('agent_url', '=', agentUrl).where('segment_id', '=', segmentId)),
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
