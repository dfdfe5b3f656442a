/**
 * Every call that changes something at an upstream: written down with its derived key before it is made, and with
 * its answer after. A call that a crash left open is repeated under the same key, so that it happens once.
 * A lease says which process works on it: replicas that share a database do not repeat each other's calls.
 */
import type { Selectable } from 'kysely'
import type { CallTable, Db } from './schema.js'

export type CallState =
  | 'open' // made or about to be made; what came of it is not known
  | 'answered'
  | 'refused' // the upstream, or our way to it, said no for good
  | 'superseded' // a later, opposite request took its place before it was answered
  | 'abandoned' // no answer as long as repeating was safe

export type NewCall = {
  id: string
  caller: string
  /** The caller's idempotency key. */
  key: string
  task: 'activate_signal' | 'report_usage'
  upstream: string
  /** The idempotency key the upstream sees. */
  upstreamKey: string
  /** What the call acts on: the upstream's segment. Empty when calls do not bear on each other. */
  target: string
  args: Record<string, unknown>
  /** Which rows of the caller's request the call carries (report_usage). */
  rows: readonly number[]
}

export type Call = NewCall & {
  state: CallState
  answer?: unknown
  attempts: number
  createdAt: number
}

export type Lease = { owner: string; until: number }

/** Settled calls are kept this long: longer than any key, and long enough to look into a dispute. */
export const CALL_KEEP_MS = 30 * 24 * 60 * 60 * 1_000

export type Calls = {
  intend(call: NewCall, lease: Lease): Promise<void>
  get(id: string): Promise<Call | undefined>
  /** The calls of one request, in the order they were intended; `since` is when its key was bound to it. */
  ofKey(caller: string, key: string, since: number): Promise<Call[]>
  /**
   * Takes an open call whose lease is free or ended; undefined when another process has it or it is not open.
   * `ownToo`: a lease of the same owner is no obstacle.
   */
  claim(id: string, lease: Lease, ownToo?: boolean): Promise<Call | undefined>
  /** Ids of open calls whose lease ended, the one that was tried longest ago first. */
  unclaimed(limit: number): Promise<string[]>
  /** Ends every lease: for a storage that only one process uses, at its start. */
  endLeases(): Promise<void>
  /** Leaves an open call to whoever claims it next. */
  endLease(id: string): Promise<void>
  /** False when the call was settled before: the first outcome stands. */
  settle(id: string, state: Exclude<CallState, 'open'>, answer?: unknown): Promise<boolean>
  /** Forgets calls that were settled before; what was activated stands in the ledger. */
  forgetSettled(before: number): Promise<void>
  /** The caller's calls on the same target that were intended after this one. */
  later(call: Call): Promise<Call[]>
}

const UNCLAIMED = 0

function fromRow(row: Selectable<CallTable>): Call {
  return {
    id: row.id,
    caller: row.caller,
    key: row.key,
    task: row.task as Call['task'],
    upstream: row.upstream,
    upstreamKey: row.upstream_key,
    target: row.target,
    args: JSON.parse(row.args) as Record<string, unknown>,
    rows: JSON.parse(row.rows) as number[],
    state: row.state as CallState,
    ...(row.answer !== null && { answer: JSON.parse(row.answer) as unknown }),
    attempts: row.attempts,
    createdAt: row.created_at,
  }
}

export function createCalls(db: Db, now: () => number): Calls {
  async function intend(call: NewCall, lease: Lease): Promise<void> {
    const at = now()
    await db
      .insertInto('calls')
      .values({
        id: call.id,
        caller: call.caller,
        key: call.key,
        task: call.task,
        upstream: call.upstream,
        upstream_key: call.upstreamKey,
        target: call.target,
        args: JSON.stringify(call.args),
        rows: JSON.stringify(call.rows),
        state: 'open',
        answer: null,
        owner: lease.owner,
        lease_until: lease.until,
        attempts: 1,
        created_at: at,
        updated_at: at,
      })
      .execute()
  }

  async function get(id: string): Promise<Call | undefined> {
    const row = await db.selectFrom('calls').selectAll().where('id', '=', id).executeTakeFirst()
    return row && fromRow(row)
  }

  async function ofKey(caller: string, key: string, since: number): Promise<Call[]> {
    const rows = await db
      .selectFrom('calls')
      .selectAll()
      .where('caller', '=', caller)
      .where('key', '=', key)
      .where('created_at', '>=', since)
      .orderBy('created_at')
      .orderBy('id')
      .execute()
    return rows.map(fromRow)
  }

  async function claim(id: string, lease: Lease, ownToo = false): Promise<Call | undefined> {
    const row = await db
      .updateTable('calls')
      .set((eb) => ({
        owner: lease.owner,
        lease_until: lease.until,
        attempts: eb('attempts', '+', 1),
        updated_at: now(),
      }))
      .where('id', '=', id)
      .where('state', '=', 'open')
      .where((eb) =>
        eb.or([eb('lease_until', '<=', now()), ...(ownToo ? [eb('owner', '=', lease.owner)] : [])]),
      )
      .returningAll()
      .executeTakeFirst()
    return row && fromRow(row)
  }

  async function unclaimed(limit: number): Promise<string[]> {
    const rows = await db
      .selectFrom('calls')
      .select('id')
      .where('state', '=', 'open')
      .where('lease_until', '<=', now())
      .orderBy('updated_at')
      .limit(limit)
      .execute()
    return rows.map((row) => row.id)
  }

  async function endLeases(): Promise<void> {
    await db.updateTable('calls').set({ lease_until: UNCLAIMED }).where('state', '=', 'open').execute()
  }

  async function endLease(id: string): Promise<void> {
    await db
      .updateTable('calls')
      .set({ lease_until: UNCLAIMED })
      .where('id', '=', id)
      .where('state', '=', 'open')
      .execute()
  }

  async function settle(id: string, state: CallState, answer?: unknown): Promise<boolean> {
    const settled = await db
      .updateTable('calls')
      .set({ state, answer: answer === undefined ? null : JSON.stringify(answer), updated_at: now() })
      .where('id', '=', id)
      .where('state', '=', 'open')
      .executeTakeFirst()
    return settled.numUpdatedRows === 1n
  }

  async function later({ caller, upstream, target, createdAt }: Call): Promise<Call[]> {
    const rows = await db
      .selectFrom('calls')
      .selectAll()
      .where('caller', '=', caller)
      .where('upstream', '=', upstream)
      .where('target', '=', target)
      .where('created_at', '>', createdAt)
      .execute()
    return rows.map(fromRow)
  }

  async function forgetSettled(before: number): Promise<void> {
    await db.deleteFrom('calls').where('state', '!=', 'open').where('updated_at', '<=', before).execute()
  }

  return { intend, get, ofKey, claim, unclaimed, endLeases, endLease, settle, forgetSettled, later }
}
