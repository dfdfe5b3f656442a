/**
 * Work that outlives a request, of any kind: one table, one claim, one lease, one order. A worker holds a job for a
 * time on the database's clock and renews that while it works. The next claim raises the job's epoch, and from then on
 * writes of the earlier holder change nothing. Jobs that change one thing in opposite directions are held one at a
 * time.
 */
import { type Selectable, sql } from 'kysely'
import type { Db, JobTable, SqlDialect } from './database/database.js'
import type { Seal } from './database/seal.js'

/** How long after a process ends another one takes over its turn or its jobs, ms. */
export const LEASE_MS = 10_000
/** How often who holds a job renews that, ms. */
export const HEARTBEAT_MS = 3_000

/** Who claims, and for how long unless renewed, ms. */
export type Hold = { owner: string; ms: number }

export type NewJob = {
  id: string
  kind: string
  /** For fairness: jobs of one lane never delay those of others. */
  lane: string
  /** What it changes at the other side; absent when jobs do not affect each other. */
  target?: string
  /** The direction of the change; jobs with the same direction need not wait for each other. */
  side?: string
  caller: string
  /** The caller's idempotency key, when it has one. */
  key?: string
  /** JSON; secrets in it are encrypted or kept in memory (store/database/seal.ts). */
  data: unknown
  /** The earliest time of a claim, ms from now. Default: 0. */
  afterMs?: number
  /** Default: now. */
  createdAt?: number
}

export type Job = {
  id: string
  kind: string
  seq: number
  lane: string
  target?: string
  caller: string
  key: string
  epoch: number
  attempts: number
  /** `open`, or how it ended. */
  state: string
  data: unknown
  answer?: unknown
  createdAt: number
}

/** A job and the right to write to it. */
export type Held = Job & { owner: string }

/** A stored job; unless it is held, it waits for a worker. */
export type Added = { isHeld: true; job: Held } | { isHeld: false; job: Job }

/** A job that can be claimed; `bytes` of its data. */
export type Due = { id: string; lane: string; bytes: number }

/** What becomes of a held job. */
export type JobChange = {
  held: Held
  /** Replaces the job's data. */
  data?: unknown
  /** It can be claimed so long from now. */
  afterMs?: number
  /** Its attempts count anew: it has done what it was for, and waits until there is more. */
  forgetsAttempts?: true
}

/** How a job ends. */
export type JobEnd = { held: Held; state: string; answer?: unknown }

export type Jobs = {
  /** With `hold`, this process holds it at once, unless a job with the opposite direction is held: then it waits. */
  add(job: NewJob, hold?: Hold): Promise<Added>
  /** The same for many, in their order. */
  addAll(jobs: readonly { job: NewJob; hold?: Hold }[]): Promise<Added[]>
  get(id: string): Promise<Job | undefined>
  /** The same for many, in the order in which they were added. */
  getAll(ids: readonly string[]): Promise<Job[]>
  /** The jobs of all requests that a caller ever made with a key, in their order. */
  ofKey(caller: string, key: string): Promise<Job[]>
  /**
   * Claims an open job that is due and that nobody holds. `early`: also one that is not due yet. `ownToo`: also one
   * that the same owner holds. Undefined when it cannot be claimed.
   */
  claim(id: string, hold: Hold, which?: { early?: boolean; ownToo?: boolean }): Promise<Held | undefined>
  /** The same for many without a target that are due; for each, what was claimed. */
  claimAll(ids: readonly string[], hold: Hold): Promise<(Held | undefined)[]>
  /** Open jobs that are due, the longest due first, without those of the lanes in `full`. */
  due(kinds: readonly string[], full: readonly string[], limit: number): Promise<Due[]>
  /** Renews the leases; returns the ids that are still held. */
  extend(held: readonly Pick<Held, 'id' | 'epoch'>[], hold: Hold): Promise<string[]>
  /** Replaces the job's data. False when another process holds it now. */
  note(held: Held, data: unknown): Promise<boolean>
  /** Gives the job up: it can be claimed `afterMs` from now; `data` replaces the job's data. */
  release(held: Held, afterMs: number, data?: unknown): Promise<boolean>
  /** Either of them for many: for each, whether it was still held. */
  changeAll(changes: readonly JobChange[]): Promise<boolean[]>
  /** Makes those of the jobs due that wait for their time. `untriedOnly`: not those that wait after an attempt. */
  hasten(ids: readonly string[], which?: { untriedOnly?: boolean }): Promise<void>
  /** False when it had ended, or another process holds it: the whole unit of work must then be rolled back. */
  end(held: Held, state: string, answer?: unknown): Promise<boolean>
  /** The same for many: for each, whether this call ended it. */
  endAll(ends: readonly JobEnd[]): Promise<boolean[]>
  /**
   * Until the unit of work ends, no other transaction decides which jobs of these targets are held, or adds a held one.
   */
  inTurn(targets: readonly string[]): Promise<void>
  /** The jobs of the same kind and target that were created after this one, open or not. */
  later(job: Pick<Job, 'kind' | 'target' | 'seq'>): Promise<Job[]>
  /**
   * Frees the jobs that an earlier process held, and those that wait for longer than any pause, because the clock was set back: at
   * the start of a storage that only one process uses.
   */
  endLeases(): Promise<void>
  /**
   * Deletes up to so many jobs that ended before `before` and on which nothing rests: no task of an upstream that goes on, and no
   * open job with the same target. Returns how many.
   */
  forgetEnded(before: number, limit: number): Promise<number>
}

const OPEN = 'open'
const LONGEST_PAUSE_MS = 3_600_000 // of any kind of job: what a receiver may ask for

/** Names one claim of a job. */
const claimOf = ({ id, epoch }: Pick<Held, 'id' | 'epoch'>) => `${epoch} ${id}`

export function createJobs(db: Db, now: () => number, dialect: SqlDialect, seal: Seal): Jobs {
  function fromRow(row: Selectable<JobTable>): Job {
    return {
      ...{ id: row.id, kind: row.kind, seq: row.seq, lane: row.lane, caller: row.caller, key: row.key },
      ...(row.target !== null && { target: row.target }),
      ...{ epoch: row.epoch, attempts: row.attempts, state: row.state, data: seal.read(row.data) },
      ...(row.answer !== null && { answer: seal.read(row.answer) }),
      createdAt: row.created_at,
    }
  }

  /** Those of the given jobs that are still held by the same owner in the same epoch; a job that has ended has no owner. */
  const amongHeld = (given: readonly Pick<Held, 'id' | 'owner' | 'epoch'>[]) =>
    sql`from ${dialect.givenJobs(given)} where jobs.id = given.job and jobs.owner = value->>'owner'
      and jobs.epoch = cast(value->>'epoch' as integer)`

  /** In one transaction: that of the unit of work, or one of its own. */
  const together = <T>(work: (on: Db) => Promise<T>): Promise<T> =>
    db.isTransaction ? work(db) : db.transaction().execute(work)

  const from = (ms: number) => sql<number>`${dialect.now()} + ${ms}`

  /** Whether a job with the opposite direction on the same target is held. */
  function isTaken(target: string, side: string) {
    return sql<boolean>`exists (select 1 from jobs as other where other.target = ${target} and other.side <> ${side}
      and other.due > ${dialect.now()} and other.owner is not null)`
  }

  async function inTurn(targets: readonly string[]): Promise<void> {
    if (targets.length > 0) await dialect.inTurn?.(db, targets)
  }

  /** The directions of held jobs on each of the targets. */
  async function sidesOf(targets: readonly string[]): Promise<Map<string, string[]>> {
    const sides = new Map<string, string[]>()
    if (targets.length === 0) return sides
    await inTurn(targets)
    const rows = await db
      .selectFrom('jobs')
      .select(['target', 'side'])
      .distinct()
      .where('target', 'in', targets)
      .where('owner', 'is not', null)
      .where('due', '>', dialect.now())
      .execute()
    for (const { target, side } of rows) {
      if (target !== null) sides.set(target, [...(sides.get(target) ?? []), side ?? ''])
    }
    return sides
  }

  async function addAll(jobs: readonly { job: NewJob; hold?: Hold }[]): Promise<Added[]> {
    if (jobs.length === 0) return []
    const targets = jobs.flatMap(({ job, hold }) => (hold && job.target !== undefined ? [job.target] : []))
    const sides = await sidesOf([...new Set(targets)])
    const at = now()

    /**
     * The owner of a new job; none when a job with the opposite direction is held, already or by an earlier one of
     * these.
     */
    function ownerOf({ target, side = '' }: NewJob, hold: Hold | undefined): string | undefined {
      if (!hold || target === undefined) return hold?.owner
      const taken = sides.get(target) ?? []
      if (taken.some((other) => other !== side)) return undefined
      sides.set(target, [side])
      return hold.owner
    }

    const planned = jobs.map(({ job, hold }) => ({ job, hold, owner: ownerOf(job, hold) }))
    const rows = planned.map(({ job, hold, owner }) => {
      const { id, kind, lane, target, side = '', caller, key = '', data, afterMs = 0, createdAt = at } = job
      return {
        ...{ id, kind, lane, target, side, caller, key, data: seal.write(data), owner, createdAt },
        ms: owner === undefined ? (hold ? 0 : afterMs) : hold?.ms,
      }
    })
    const { rows: written } = await sql<{ id: string; seq: number }>`insert into jobs
        (id, kind, lane, target, side, caller, key, data, owner, attempts, due, epoch, state, created_at)
      select value->>'id', value->>'kind', value->>'lane', value->>'target', value->>'side', value->>'caller',
        value->>'key', value->>'data', value->>'owner', case when value->>'owner' is null then 0 else 1 end,
        ${dialect.now()} + cast(value->>'ms' as bigint), 1, ${sql.lit(OPEN)}, cast(value->>'createdAt' as bigint)
      from ${dialect.given(rows)} returning id, seq`.execute(db)
    const seqs = new Map(written.map(({ id, seq }) => [id, seq]))
    return planned.map(({ job, owner }): Added => {
      const { id, kind, lane, target, caller, key = '', data, createdAt = at } = job
      const added: Job = {
        ...{ id, kind, lane, caller, key, data, seq: seqs.get(id) ?? 0, createdAt },
        ...(target !== undefined && { target }),
        ...{ epoch: 1, attempts: owner === undefined ? 0 : 1, state: OPEN },
      }
      return owner === undefined ? { isHeld: false, job: added } : { isHeld: true, job: { ...added, owner } }
    })
  }

  async function add(job: NewJob, hold?: Hold): Promise<Added> {
    const [added] = await addAll([{ job, ...(hold && { hold }) }])
    return added as Added
  }

  const inOrder = () => db.selectFrom('jobs').selectAll().orderBy('seq')

  async function getAll(ids: readonly string[]): Promise<Job[]> {
    return ids.length === 0 ? [] : (await inOrder().where('id', 'in', ids).execute()).map(fromRow)
  }

  async function ofKey(caller: string, key: string): Promise<Job[]> {
    const rows = await inOrder().where('caller', '=', caller).where('key', '=', key).execute()
    return rows.map(fromRow)
  }

  async function claimIn(
    on: Db,
    { id, target, side }: Pick<Selectable<JobTable>, 'id' | 'target' | 'side'>,
    hold: Hold,
    { early = false, ownToo = false }: { early?: boolean; ownToo?: boolean },
  ): Promise<Held | undefined> {
    if (target !== null) await dialect.inTurn?.(on, [target])
    const taken = await on
      .updateTable('jobs')
      .set((eb) => ({
        owner: hold.owner,
        epoch: eb('epoch', '+', 1),
        attempts: eb('attempts', '+', 1),
        due: from(hold.ms),
      }))
      .where('id', '=', id)
      .where((eb) =>
        eb.or([
          eb('due', '<=', dialect.now()),
          ...(early ? [eb.and([eb('due', 'is not', null), eb('owner', 'is', null)])] : []),
          ...(ownToo ? [eb.and([eb('due', 'is not', null), eb('owner', '=', hold.owner)])] : []),
        ]),
      )
      .$if(target !== null, (query) => query.where((eb) => eb.not(isTaken(target ?? '', side ?? ''))))
      .returningAll()
      .executeTakeFirst()
    return taken && { ...fromRow(taken), owner: hold.owner }
  }

  async function claim(id: string, hold: Hold, which = {}): Promise<Held | undefined> {
    const known = await db
      .selectFrom('jobs')
      .select(['id', 'target', 'side', 'due'])
      .where('id', '=', id)
      .executeTakeFirst()
    if (!known || known.due === null) return undefined
    return await together((on) => claimIn(on, known, hold, which))
  }

  async function claimAll(ids: readonly string[], hold: Hold): Promise<(Held | undefined)[]> {
    const held = await together(async (on) => {
      const { rows: taken } = await sql<Selectable<JobTable>>`update jobs
        set owner = ${hold.owner}, epoch = epoch + 1, attempts = attempts + 1, due = ${from(hold.ms)}
        from ${dialect.givenJobs(ids.map((id) => ({ id })))}
        where jobs.id = given.job and jobs.due <= ${dialect.now()} and jobs.target is null
        returning *`.execute(on)
      // One that cannot be read keeps all from being claimed, so that the others can be claimed without it.
      return new Map(taken.map((row) => [row.id, { ...fromRow(row), owner: hold.owner }]))
    })
    return ids.map((id) => held.get(id))
  }

  async function due(kinds: readonly string[], full: readonly string[], limit: number) {
    return await db
      .selectFrom('jobs')
      .select(['id', 'lane', sql<number>`octet_length(data)`.as('bytes')])
      .where('kind', 'in', kinds)
      .where('due', '<=', dialect.now())
      .$if(full.length > 0, (query) => query.where('lane', 'not in', full))
      .orderBy('due')
      .limit(limit)
      .execute()
  }

  async function extend(held: readonly Pick<Held, 'id' | 'epoch'>[], { owner, ms }: Hold): Promise<string[]> {
    if (held.length === 0) return []
    const given = held.map(({ id, epoch }) => ({ id, epoch, owner }))
    const { rows } = await sql<Pick<Held, 'id'>>`update jobs set due = ${from(ms)}
      ${amongHeld(given)} returning jobs.id`.execute(db)
    return rows.map(({ id }) => id)
  }

  async function hasten(ids: readonly string[], { untriedOnly = false } = {}): Promise<void> {
    if (ids.length === 0) return
    const given = dialect.givenJobs(ids.map((id) => ({ id, owner: null })))
    await sql`update jobs set due = ${dialect.now()} from ${given} where jobs.id = given.job
      and jobs.owner is not distinct from value->>'owner' and jobs.due > ${dialect.now()}
      ${untriedOnly ? sql`and jobs.attempts = 0` : sql``}`.execute(db)
  }

  async function changeAll(changes: readonly JobChange[]): Promise<boolean[]> {
    if (changes.length === 0) return []
    const given = changes.map(({ held: { id, owner, epoch }, data, afterMs, forgetsAttempts }) => ({
      ...{ id, owner, epoch, forgetsAttempts, data: data === undefined ? undefined : seal.write(data) },
      afterMs: afterMs === undefined ? undefined : Math.round(afterMs),
    }))
    const { rows } = await sql<Pick<Held, 'id' | 'epoch'>>`update jobs
      set data = coalesce(value->>'data', data), owner = case when value->>'afterMs' is null then owner end,
        attempts = case when value->>'forgetsAttempts' is null then attempts else 0 end,
        due = coalesce(${dialect.now()} + cast(value->>'afterMs' as bigint), due)
      ${amongHeld(given)} returning jobs.id, jobs.epoch`.execute(db)
    const done = new Set(rows.map(claimOf))
    return changes.map(({ held }) => done.has(claimOf(held)))
  }

  async function endAll(ends: readonly JobEnd[]): Promise<boolean[]> {
    if (ends.length === 0) return []
    const first = new Map<string, JobEnd>()
    for (const end of ends) if (!first.has(claimOf(end.held))) first.set(claimOf(end.held), end)
    const given = [...first.values()].map(({ held: { id, owner, epoch }, state, answer }) => ({
      ...{ id, owner, epoch, state },
      ...(answer !== undefined && { answer: seal.write(answer) }),
    }))
    const { rows } = await sql<Pick<Held, 'id' | 'epoch'>>`update jobs
      set state = value->>'state', answer = value->>'answer', owner = null, due = null, ended_at = ${now()}
      ${amongHeld(given)} returning jobs.id, jobs.epoch`.execute(db)
    const ended = new Set(rows.map(claimOf))
    return ends.map(({ held }) => ended.delete(claimOf(held))) // the first of each
  }

  async function later({ kind, target, seq }: Pick<Job, 'kind' | 'target' | 'seq'>): Promise<Job[]> {
    if (target === undefined) return []
    const same = inOrder().where('target', '=', target).where('kind', '=', kind)
    return (await same.where('seq', '>', seq).execute()).map(fromRow)
  }

  async function forgetEnded(before: number, limit: number): Promise<number> {
    const past = db
      .selectFrom('jobs')
      .select('seq')
      .where('ended_at', '<=', before)
      .where(sql<boolean>`coalesce((select activations.outcome from activations
        where activations.id = jobs.id), '') != 'submitted'`)
      // By the index of what is due: by that of targets all ended jobs would be read.
      .where(sql<boolean>`coalesce(target, '') not in (select coalesce(other.target, 'none') from jobs as other
        where other.due is not null)`)
      .orderBy('ended_at')
      .limit(limit)
    const { numDeletedRows } = await db.deleteFrom('jobs').where('seq', 'in', past).executeTakeFirst()
    return Number(numDeletedRows)
  }

  return {
    ...{ add, addAll, getAll, ofKey, claim, claimAll, due, extend, hasten, changeAll, endAll },
    ...{ inTurn, later, forgetEnded },
    get: async (id) => (await getAll([id]))[0],
    end: async (held, state, answer) => (await endAll([{ held, state, answer }]))[0] === true,
    note: async (held, data) => (await changeAll([{ held, data }]))[0] === true,
    release: async (held, afterMs, data) => (await changeAll([{ held, data, afterMs }]))[0] === true,
    endLeases: async () =>
      void (await db
        .updateTable('jobs')
        .set({ owner: null, due: dialect.now() })
        .where('due', 'is not', null)
        .where((eb) => eb.or([eb('owner', 'is not', null), eb('due', '>', from(LONGEST_PAUSE_MS))]))
        .execute()),
  }
}
