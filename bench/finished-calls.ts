/** Fills a storage with calls that ended: copies of those that are there, as if they had been made over the last 29 days. */
import { sql } from 'kysely'
import { openStore } from '../src/store/store.js'

const OVER_MS = 29 * 24 * 60 * 60 * 1_000 // none is past its time (docs/storage.md)
const KEYS_MS = 24 * 60 * 60 * 1_000 // idempotency keys are kept for so long

/**
 * Copies the finished calls, the ledger's entries and the idempotency keys until there are `total` calls. Gives how
 * many milliseconds it took.
 */
export async function addFinishedCalls(url: string, total: number): Promise<number> {
  const store = await openStore({ url, now: Date.now, onProblem: console.error, statementMs: 3_600_000 })
  const { db, shared } = store
  const began = performance.now()
  const there = await db
    .selectFrom('jobs')
    .select((eb) => eb.fn.countAll().as('count'))
    .executeTakeFirstOrThrow()
  const copies = Math.ceil(total / Number(there.count))
  const stepMs = Math.floor(OVER_MS / copies)
  const numbers = (upTo: number) =>
    shared
      ? sql`generate_series(1, ${upTo}::int) as numbers(n)`
      : sql`(with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${upTo})
          select n from numbers) as numbers`
  const step = shared ? sql`${stepMs}::bigint` : sql`${stepMs}`
  const copy = sql`'-' || cast(n as text)`
  // One statement a table: the database makes the rows, nothing of them crosses the process.
  await db.transaction().execute(async (tx) => {
    await sql`insert into jobs (id, kind, lane, target, side, caller, key, owner, epoch, attempts, due, state, data,
        answer, created_at, ended_at)
      select id || ${copy}, kind, lane, target, side, caller, key || ${copy}, owner, epoch, attempts, due, state, data,
        answer, created_at - n * ${step}, ended_at - n * ${step}
      from jobs cross join ${numbers(copies)} where ended_at is not null`.execute(tx)
    await sql`insert into activations (id, caller, account, action, handle, signal_handle, offer_handle,
        pricing_option_id, upstream_option_id, upstream, agent_url, segment_id, upstream_account, destinations, outcome,
        deployments, error, task_id, seen_as, seq, past, created_at, updated_at)
      select id || ${copy}, caller, account, action, handle, signal_handle, offer_handle, pricing_option_id,
        upstream_option_id, upstream, agent_url, segment_id, upstream_account, destinations, outcome, deployments,
        error, task_id, seen_as, seq, 1, created_at - n * ${step}, updated_at - n * ${step}
      from activations cross join ${numbers(copies)}`.execute(tx)
    await sql`insert into idempotency (caller, key, task, fingerprint, answer, created_at, expires_at)
      select caller, key || ${copy}, task, fingerprint, answer, created_at - n * ${step}, expires_at - n * ${step}
      from idempotency cross join ${numbers(Math.floor(KEYS_MS / stepMs))}`.execute(tx)
  })
  if (shared) await sql`analyze`.execute(db) // as its autovacuum does it by itself, a minute later
  await store.close()
  return performance.now() - began
}
