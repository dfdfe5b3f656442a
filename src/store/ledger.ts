/**
 * What was activated and deactivated, by whom, where, at which price, and what came of it. Entries are never removed:
 * a handle that was ever activated stays resolvable (docs/decisions.md#handles).
 */
import type { Selectable } from 'kysely'
import { signalPart } from '../merge/identity.js'
import type { ActivationTable, Db } from './schema.js'

export type Action = 'activate' | 'deactivate'

export type Outcome =
  | 'pending' // intended; the upstream's answer is not known yet
  | 'submitted' // the upstream works on it
  | 'completed'
  | 'failed'
  | 'superseded' // a later, opposite request took its place before the upstream answered
  | 'unknown' // the upstream did not answer as long as repeating was safe

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
  /** Ours, as published, and the upstream's own. */
  pricingOptionId?: string
  upstreamOptionId?: string
  upstream: string
  agentUrl: string
  /** The upstream's own segment id and account reference. */
  segmentId: string
  upstreamAccount?: unknown
  destinations: readonly unknown[]
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

/** Where a page of the ledger ended: the next one starts after it. */
export type LedgerPosition = Pick<Entry, 'createdAt' | 'id'>

export type Ledger = {
  record(entry: NewEntry): Promise<void>
  settle(id: string, settlement: Settlement): Promise<void>
  get(id: string): Promise<Entry | undefined>
  /** Newest first; at most `limit`, itself at most 1,000. */
  query(filter: LedgerFilter, limit: number, after?: LedgerPosition): Promise<Entry[]>
}

export const LEDGER_PAGE = 1_000

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
    outcome: row.outcome as Outcome,
    ...(row.deployments !== null && { deployments: JSON.parse(row.deployments) as unknown[] }),
    ...(row.error !== null && { error: JSON.parse(row.error) as unknown }),
    ...(row.task_id !== null && { taskId: row.task_id }),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value))

export function createLedger(db: Db, now: () => number): Ledger {
  async function record(entry: NewEntry): Promise<void> {
    const at = now()
    await db
      .insertInto('activations')
      .values({
        id: entry.id,
        caller: entry.caller,
        account: entry.account ?? null,
        action: entry.action,
        handle: entry.handle,
        signal_handle: entry.signalHandle,
        offer_handle: entry.offerHandle,
        pricing_option_id: entry.pricingOptionId ?? null,
        upstream_option_id: entry.upstreamOptionId ?? null,
        upstream: entry.upstream,
        agent_url: entry.agentUrl,
        segment_id: entry.segmentId,
        upstream_account: json(entry.upstreamAccount),
        destinations: JSON.stringify(entry.destinations),
        outcome: 'pending',
        deployments: null,
        error: null,
        task_id: null,
        created_at: at,
        updated_at: at,
      })
      .execute()
  }

  async function settle(id: string, { outcome, deployments, error, taskId }: Settlement): Promise<void> {
    await db
      .updateTable('activations')
      .set({
        outcome,
        deployments: json(deployments),
        error: json(error),
        ...(taskId !== undefined && { task_id: taskId }),
        updated_at: now(),
      })
      .where('id', '=', id)
      .execute()
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
      const signal = signalPart(handle) // what is indexed; an offer's handle begins with its signal's
      select = select.where('signal_handle', '=', signal)
      if (handle !== signal) select = select.where('offer_handle', '=', handle)
    }
    if (after) {
      select = select.where((eb) =>
        eb.or([
          eb('created_at', '<', after.createdAt),
          eb.and([eb('created_at', '=', after.createdAt), eb('id', '<', after.id)]),
        ]),
      )
    }
    return (await select.execute()).map(fromRow)
  }

  return { record, settle, get, query }
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
