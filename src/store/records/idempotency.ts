/**
 * What a caller's idempotency key is bound to: one request and, once there is one, its answer (specification, "Authentication" 6;
 * schema signals/activate-signal-request, `idempotency_key`). Requests are told apart by hashes of canonical JSON, so one that is
 * repeated through another replica, or after a restart, is the same.
 */
import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'
import { sql } from 'kysely'
import type { Caller } from '../../adcp/caller.js'
import { isRecord } from '../../adcp/json.js'
import { type Db, type SqlDialect, storableJson } from '../database/database.js'
import type { Seal } from '../database/seal.js'

/** Members about the transport of a request and not its content; a retry may have others. */
const TRAVEL = [
  'idempotency_key',
  'context',
  'context_id',
  'governance_context',
  'adcp_version',
  'adcp_major_version',
]

export type KeyedRequest = {
  caller: string
  key: string
  task: string
  /** Hash of the canonical request, account included. */
  fingerprint: string
}

/**
 * JSON may hold what has no canonical form: half a surrogate pair, and a number beyond the range of doubles. They become what
 * storage keeps of them, U+FFFD and null.
 */
function canonicalParts(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (Array.isArray(value)) return value.map(canonicalParts)
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name.toWellFormed(), canonicalParts(member)]),
  )
}

/** Canonical JSON (RFC 8785) of a value that came as JSON: one text for all that are equal. */
export function canonical(value: unknown): string {
  const text = canonicalize(canonicalParts(value))
  if (text === undefined) throw new Error('A value that is not JSON has no canonical form')
  return text
}

/** Equal for equal requests; the account is part of the request. */
function fingerprint(request: Readonly<Record<string, unknown>>): string {
  const asked = Object.entries(request).filter(
    ([name, value]) => !TRAVEL.includes(name) && value !== undefined,
  )
  return hash('sha256', canonical(Object.fromEntries(asked)), 'base64url')
}

/** A caller's request under its idempotency key. */
export function keyedRequest(
  task: string,
  caller: Pick<Caller, 'id'>,
  request: Readonly<Record<string, unknown>> & { idempotency_key: string },
): KeyedRequest {
  return { task, caller: caller.id, key: request.idempotency_key, fingerprint: fingerprint(request) }
}

/** A request, and the calls that are made for it once it is bound to its key, by their ids. */
type BoundRequest = KeyedRequest & { calls?: readonly string[] }

export type KeyedAnswer = Pick<KeyedRequest, 'caller' | 'key'> & { answer: unknown }

export type Binding =
  | { kind: 'fresh' } // this call bound the key
  | { kind: 'open'; calls: readonly string[] } // bound to this same request, which has no final answer yet
  | { kind: 'answered'; answer: unknown }
  | { kind: 'conflict' } // bound to another request

export type Idempotency = {
  /** What the key is bound to; undefined when it is free. Does not bind it. */
  find(request: KeyedRequest): Promise<Exclude<Binding, { kind: 'fresh' }> | undefined>
  /** Binds the key to the request, or returns what it is bound to. Of two racing callers one gets `fresh`. */
  bind(request: BoundRequest): Promise<Binding>
  /** The same for many, in their order. */
  bindAll(requests: readonly BoundRequest[]): Promise<Binding[]>
  /** Stores the final answer for replays. */
  answer(caller: string, key: string, answer: unknown): Promise<void>
  answerAll(answers: readonly KeyedAnswer[]): Promise<void>
  /** Frees a key whose request was refused before anything was done. */
  release(caller: string, key: string): Promise<void>
  /** Deletes up to so many keys whose time is over. Returns how many. */
  forgetExpired(limit: number): Promise<number>
}

const nameOf = ({ caller, key }: Pick<KeyedRequest, 'caller' | 'key'>) => storableJson([caller, key])

export function createIdempotency(
  db: Db,
  now: () => number,
  dialect: SqlDialect,
  seal: Seal,
  answersMs: number,
): Idempotency {
  /**
   * Whether the time of a key is over. It begins with the outcome of its request, the end of the last job that is done for it: a
   * request with an open job keeps its key.
   */
  function isOver() {
    const at = now()
    return sql<boolean>`(idempotency.expires_at <= ${at} and not exists (select 1 from jobs
      where jobs.caller = idempotency.caller and jobs.key = idempotency.key
        and (jobs.due is not null or jobs.ended_at > ${at - answersMs})))`
  }

  /** The calls of a request that an earlier release bound to its key without naming them. */
  async function callsSince({ caller, key }: KeyedRequest, since: number): Promise<string[]> {
    const rows = await db
      .selectFrom('jobs')
      .select('id')
      .where('caller', '=', caller)
      .where('key', '=', key)
      .where('kind', '=', 'call')
      .where('created_at', '>=', since)
      .execute()
    return rows.map(({ id }) => id)
  }

  async function find(request: KeyedRequest) {
    const { caller, key, task, fingerprint } = request
    const held = await db
      .selectFrom('idempotency')
      .select(['task', 'fingerprint', 'calls', 'answer', 'created_at'])
      .where('caller', '=', caller)
      .where('key', '=', key)
      .where((eb) => eb.not(isOver()))
      .executeTakeFirst()
    if (!held) return undefined
    if (held.task !== task || held.fingerprint !== fingerprint) return { kind: 'conflict' } as const
    if (held.answer !== null) return { kind: 'answered', answer: seal.read(held.answer) } as const
    const { calls, created_at: since } = held
    const named = calls === null ? await callsSince(request, since) : (JSON.parse(calls) as string[])
    return { kind: 'open', calls: named } as const
  }

  /** The keys that were free: each is bound to the first request that has it. */
  async function bindFree(requests: readonly BoundRequest[]): Promise<Set<string>> {
    const at = now()
    // Writes in one order everywhere: replicas that bind the same keys wait for each other and do not deadlock.
    const ordered = [...requests].sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1))
    const rows = ordered.map(({ calls = [], ...request }) => ({ ...request, calls: JSON.stringify(calls) }))
    const { rows: bound } = await sql<Pick<KeyedRequest, 'caller' | 'key'>>`insert into idempotency
        (caller, key, task, fingerprint, calls, created_at, expires_at)
      select value->>'caller', value->>'key', value->>'task', value->>'fingerprint', value->>'calls',
        cast(${at} as bigint), cast(${at + answersMs} as bigint)
      from ${dialect.given(rows)} where true
      on conflict (caller, key) do nothing returning caller, key`.execute(db)
    return new Set(bound.map(nameOf))
  }

  /** A key that is not free: what it is bound to, or the new request when the time of the old binding is over. */
  async function rebind(request: BoundRequest): Promise<Binding> {
    const { caller, key } = request
    await db
      .deleteFrom('idempotency')
      .where('caller', '=', caller)
      .where('key', '=', key)
      .where(isOver())
      .execute()
    // Else the request that held the key has released it: nothing was done under it.
    return (await find(request)) ?? (await bind(request))
  }

  async function bindAll(requests: readonly BoundRequest[]): Promise<Binding[]> {
    if (requests.length === 0) return []
    const free = await bindFree(requests)
    const bindings: Binding[] = []
    for (const request of requests) {
      const isFirst = free.delete(nameOf(request)) // of the requests with this key; the others find it bound
      bindings.push(isFirst ? { kind: 'fresh' } : await rebind(request))
    }
    return bindings
  }

  async function bind(request: BoundRequest): Promise<Binding> {
    const [binding] = await bindAll([request])
    return binding as Binding
  }

  async function answerAll(answers: readonly KeyedAnswer[]): Promise<void> {
    if (answers.length === 0) return
    const rows = answers.map(({ caller, key, answer }) => ({ caller, key, answer: seal.write(answer) }))
    await sql`update idempotency set answer = value->>'answer'
      from ${dialect.given(rows)}
      where idempotency.caller = value->>'caller' and idempotency.key = value->>'key'`.execute(db)
  }

  async function release(caller: string, key: string): Promise<void> {
    await db
      .deleteFrom('idempotency')
      .where('caller', '=', caller)
      .where('key', '=', key)
      .where('answer', 'is', null)
      .execute()
  }

  async function forgetExpired(limit: number): Promise<number> {
    const past = db
      .selectFrom('idempotency')
      .select(['caller', 'key'])
      .where(isOver())
      .orderBy('expires_at')
      .limit(limit)
    const { numDeletedRows } = await db
      .deleteFrom('idempotency')
      .where((eb) => eb(eb.refTuple('caller', 'key'), 'in', past.$asTuple('caller', 'key')))
      .executeTakeFirst()
    return Number(numDeletedRows)
  }

  return {
    ...{ find, bind, bindAll, answerAll, release, forgetExpired },
    answer: (caller, key, value) => answerAll([{ caller, key, answer: value }]),
  }
}
