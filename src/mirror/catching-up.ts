/**
 * Brings the copy up to date: by a reading of the feed, or by what the agent notifies.
 *
 * A reading ends `unchanged`, or after a walk of all pages under one version (specification, "mid-pagination"). Versions have no parts
 * that a client could check against the rows, so these are checked instead: every page carries the same ones, "unchanged" names those
 * that were sent, and as many rows come as any page announced, the same number on each that says one.
 *
 * Notified changes (specification, "Events"; schema core/wholesale-feed-webhook) are read as steps from one version of the feed to the
 * next and wait in an inbox, which need not be durable. Steps that begin at the version that is held and follow each other without a
 * gap are applied once the agent confirms that they end at its current version. Otherwise, as after a step that was lost or dropped,
 * the feed is read, as on schedule.
 */
import { isRecord } from '../adcp/json.js'
import { backoffMs, type Clock, pause } from '../net/clock.js'
import type { Copy, CopyRow, CopyState, Replacement, RowChange, RowChanges } from './copy.js'
import type { FeedAsker, FeedReply } from './feed-asker.js'

const PAGE = 100
const FIRST_PAGE = { pagination: { max_results: PAGE } }
const MAX_RESTARTS = 10
const MAX_ATTEMPTS = 6 // of one page: a walk outlives a restart of the agent, and being slowed down by it
const FIRST_WAIT_MS = 1_000

/** Bounds of the inbox: beyond them all steps are dropped, and the feed is read. */
const MOST_STEPS = 2_000
const MOST_STEP_BYTES = 16 * 2 ** 20
/**
 * Events of one change arrive one after the other: waits for a pause between them, and no longer than `PATIENCE_MS`. All
 * in ms.
 */
const GATHER_MS = 50
const QUIET_MS = 1_000
const PATIENCE_MS = 60_000

export type FeedReading =
  | { kind: 'unchanged'; state: CopyState }
  | { kind: 'replaced'; state: CopyState }
  /** The agent's events were applied, and the copy is now what the agent's feed is. */
  | { kind: 'applied'; state: CopyState }
  | { kind: 'failed'; reason: FeedFailure; message: string }

/**
 * `refused`: the agent refuses and will refuse again. `trouble`: there was no answer. `unsound`: the answer is no valid feed.
 * `moving`: it changed during every walk. `unwritten`: the copy could not be written.
 */
type FeedFailure = 'refused' | 'trouble' | 'unsound' | 'moving' | 'unwritten'

type AskingOptions = {
  asker: FeedAsker
  /** Filters and account. */
  question: Readonly<Record<string, unknown>>
  clock: Clock
  random(): number
  signal: AbortSignal
}

type ReadingOptions = AskingOptions & {
  copy: Copy
  /** What the copy is, where the agent may answer that this is still the feed. */
  held: CopyState | undefined
  source: string
}

type Versions = Pick<CopyState, 'version' | 'pricing' | 'scope'>
type Failure = Extract<FeedReading, { kind: 'failed' }>
type Page = { rows: readonly CopyRow[]; cursor: string | undefined; total: number | undefined }

const failed = (reason: FeedFailure, message: string): Failure => ({ kind: 'failed', reason, message })

/** The value, when it is a text that says something. */
const textIn = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)

function versionsOf(answer: Readonly<Record<string, unknown>>): Versions {
  const version = textIn(answer.wholesale_feed_version)
  const pricing = textIn(answer.pricing_version)
  const scope = textIn(answer.cache_scope)
  return { ...(version && { version }), ...(pricing && { pricing }), ...(scope && { scope }) }
}

function isSame(one: Versions, other: Versions): boolean {
  return one.version === other.version && one.pricing === other.pricing && one.scope === other.scope
}

/** "Unchanged" need not repeat the versions; when it names other ones than ours, it is about another feed. */
function confirms({ unchanged, ...answer }: Readonly<Record<string, unknown>>, held: CopyState): boolean {
  return unchanged === true && isSame(held, { ...held, ...versionsOf(answer) })
}

/** The arguments that let an agent answer "unchanged" for a copy of these versions. */
function conditionOf({ version, pricing }: Versions): Record<string, string> {
  if (version === undefined) return {}
  return { if_wholesale_feed_version: version, ...(pricing && { if_pricing_version: pricing }) }
}

/** The rows of a page and what follows it; undefined when it is none. */
function pageOf({ signals, pagination }: Readonly<Record<string, unknown>>): Page | undefined {
  if (!Array.isArray(signals)) return undefined
  const rows: CopyRow[] = []
  for (const row of signals as unknown[]) {
    const id = isRecord(row) ? textIn(row.signal_agent_segment_id) : undefined
    if (!isRecord(row) || id === undefined) return undefined
    rows.push({ id, row })
  }
  const { has_more, cursor, total_count } = isRecord(pagination) ? pagination : {}
  const next = has_more === true ? textIn(cursor) : undefined
  if (has_more === true && next === undefined) return undefined
  return { rows, cursor: next, total: typeof total_count === 'number' ? total_count : undefined }
}

/** Asks for the feed, again and again while there is no answer. */
function patient({ asker, question, clock, random, signal }: AskingOptions) {
  return async (asked: Readonly<Record<string, unknown>>): Promise<FeedReply> => {
    for (let failures = 1; ; failures += 1) {
      if (signal.aborted) return { kind: 'trouble', message: 'the mirror was closed' }
      const reply = await asker.ask('get_signals', { discovery_mode: 'wholesale', ...question, ...asked })
      if (reply.kind !== 'trouble' || failures === MAX_ATTEMPTS) return reply
      const { retryAfterMs } = reply
      await pause(clock, backoffMs({ failures, refreshMs: FIRST_WAIT_MS, random, retryAfterMs }), signal)
    }
  }
}

/** Brings the copy up to date. Rejects when the copy cannot be written; what the agent does is an outcome. */
export async function readFeed(options: ReadingOptions): Promise<FeedReading> {
  const { copy, held, source, clock } = options
  const patiently = patient(options)

  /** All pages from the first one on; undefined when the feed moved meanwhile. */
  async function walk(first: FeedReply, into: Replacement): Promise<FeedReading | undefined> {
    const ids = new Set<string>()
    const cursors = new Set<string>()
    let versions: Versions | undefined
    let announced: number | undefined
    let received = 0
    for (let reply = first; ; ) {
      if (reply.kind !== 'answer') {
        if (versions && reply.kind === 'refused' && reply.field === 'pagination.cursor') return undefined
        return failed(reply.kind, reply.message)
      }
      const { answer } = reply
      versions ??= versionsOf(answer)
      if (!isSame(versions, versionsOf(answer))) return undefined
      const page = pageOf(answer)
      if (!page) return failed('unsound', 'a page holds no rows that could be kept')
      // Of a segment that is listed twice the first row is kept.
      const fresh = page.rows.filter(({ id }) => !ids.has(id) && ids.add(id))
      await into.add(fresh)
      received += page.rows.length
      const { cursor, total = announced } = page
      announced ??= total
      if (total !== announced) return undefined
      if (cursor === undefined) {
        if (announced !== undefined && announced !== received)
          return failed('unsound', `it announced ${announced} signals and gave ${received}`)
        const incomplete = Array.isArray(answer.incomplete) ? answer.incomplete : []
        const state = { source, ...versions, rows: ids.size, walkedAt: clock.now(), incomplete }
        await into.commit(state)
        return { kind: 'replaced', state }
      }
      if (cursors.has(cursor)) return failed('unsound', 'its pages lead back to one that was read')
      cursors.add(cursor)
      reply = await patiently({ pagination: { max_results: PAGE, cursor } })
    }
  }

  let reply = await patiently({ ...FIRST_PAGE, ...(held && conditionOf(held)) })
  if (held?.version !== undefined && reply.kind === 'answer') {
    // An agent that takes no tokens answers with its first page; the versions on it say the same as "unchanged".
    const { answer } = reply
    if (confirms(answer, held) || isSame(held, versionsOf(answer))) return { kind: 'unchanged', state: held }
    // "Unchanged" under another version than ours proves nothing about our rows.
    if (answer.unchanged === true) reply = await patiently(FIRST_PAGE)
  }
  for (let restarts = 0; restarts <= MAX_RESTARTS; restarts += 1) {
    if (restarts > 0) reply = await patiently(FIRST_PAGE)
    if (reply.kind !== 'answer') return failed(reply.kind, reply.message)
    const into = await copy.replace()
    const outcome = await walk(reply, into).catch(async (error: unknown) => {
      await into.abandon().catch(() => {}) // the error that matters is the one that ended the walk
      throw error
    })
    if (outcome?.kind !== 'replaced') await into.abandon()
    if (outcome) return outcome
  }
  return failed('moving', 'the feed changed during every walk')
}

type Tokens = Pick<CopyState, 'version' | 'pricing'>

type Step = {
  /** `cache_scope`: which layer of the feed it is about. */
  scope: string
  from: Tokens
  to: Tokens
  /** Absent where the rows have to be read: many changed, or the kind of change is not known here. */
  row?: { id: string; change: RowChange }
}

/** The protocol's body has no member for a version of prices; Tributary's `ext` has (docs/protocol.md#feed-webhooks). */
function pricingIn(event: Readonly<Record<string, unknown>>, name: string): string | undefined {
  const ext = isRecord(event.ext) && isRecord(event.ext.tributary) ? event.ext.tributary : {}
  return textIn(ext[name])
}

function tokens(version: unknown, pricing: string | undefined): Tokens {
  const structure = textIn(version)
  return { ...(structure && { version: structure }), ...(pricing && { pricing }) }
}

function rowOf(type: unknown, payload: Readonly<Record<string, unknown>>): Step['row'] {
  const id = textIn(payload.signal_agent_segment_id)
  if (id === undefined) return undefined
  if (type === 'signal.removed') return { id, change: { kind: 'remove' } }
  if (type === 'signal.created' || type === 'signal.updated') {
    const { signal: row } = payload
    const isIts = isRecord(row) && row.signal_agent_segment_id === id
    return isIts ? { id, change: { kind: 'put', row } } : undefined
  }
  const { pricing_options, effective_at } = payload
  // Prices that apply from some time on are read once they do.
  if (type !== 'signal.priced' || !Array.isArray(pricing_options) || effective_at !== undefined)
    return undefined
  return { id, change: { kind: 'set', members: { pricing_options } } }
}

/** An event with a valid signature, as a step. One of an unknown kind means only that something changed. */
export function stepOf(told: Readonly<Record<string, unknown>>): Step {
  const event = isRecord(told.event) ? told.event : {}
  const row = rowOf(event.event_type, isRecord(event.payload) ? event.payload : {})
  return {
    scope: textIn(told.cache_scope) ?? 'public',
    from: tokens(told.previous_wholesale_feed_version, pricingIn(told, 'previous_pricing_version')),
    to: tokens(told.wholesale_feed_version, pricingIn(told, 'pricing_version')),
    ...(row && { row }),
  }
}

const nameOf = ({ version, pricing }: Tokens) => JSON.stringify([version, pricing])

/** The steps that lead on from what is held, in their order, whatever the order is in which they came. */
function pathFrom(held: CopyState, steps: readonly Step[]): readonly Step[] {
  const { scope = 'public' } = held
  const next = new Map(steps.filter((step) => step.scope === scope).map((step) => [nameOf(step.from), step]))
  const path: Step[] = []
  for (let at = nameOf(held); ; ) {
    const step = next.get(at)
    if (!step) return path
    next.delete(at) // versions may come back: no step is taken twice
    path.push(step)
    at = nameOf(step.to)
  }
}

/** What all steps together do to the rows; undefined when one of them says that rows have to be read. */
function changesOf(steps: readonly Step[]): RowChanges | undefined {
  const changes = new Map<string, RowChange>()
  for (const { row } of steps) {
    if (!row) return undefined
    const { id, change } = row
    const before = changes.get(id)
    if (change.kind !== 'set' || !before) changes.set(id, change)
    else if (before.kind === 'put')
      changes.set(id, { kind: 'put', row: { ...before.row, ...change.members } })
    else if (before.kind === 'set')
      changes.set(id, { kind: 'set', members: { ...before.members, ...change.members } })
    else return undefined // of a row that was removed
  }
  return changes
}

/** An empty inbox. */
export function createInbox() {
  let steps: { step: Step; bytes: number }[] = []
  let rung = 0
  let isToBeRead = false
  let bell = new AbortController()

  function wake(): void {
    rung += 1
    bell.abort()
    bell = new AbortController()
  }

  return {
    put(step: Step, bytes: number): void {
      const held = steps.reduce((sum, one) => sum + one.bytes, bytes)
      if (steps.length >= MOST_STEPS || held > MOST_STEP_BYTES) steps = []
      steps.push({ step, bytes })
      wake()
    },
    /** Something changed, and it is not known what. */
    ring(): void {
      isToBeRead = true
      wake()
    },
    steps: (): readonly Step[] => steps.map(({ step }) => step),
    /** Whether the copy may be behind what was told. */
    isWaiting: () => isToBeRead || steps.length > 0,
    /** How often it was woken; `next` aborts the next time that it is. */
    rung: () => rung,
    next: (): AbortSignal => bell.signal,
    /** The copy is being read: what was told so far will be part of it. */
    reading(): readonly Step[] {
      isToBeRead = false
      return steps.map(({ step }) => step)
    },
    /** These are part of the copy. */
    taken(done: readonly Step[]): void {
      steps = steps.filter(({ step }) => !done.includes(step))
    },
  }
}

type Inbox = ReturnType<typeof createInbox>

type CatchingUpOptions = AskingOptions & {
  copy: Copy
  inbox: Inbox
  /** Reads the feed as on schedule. */
  read(): Promise<FeedReading>
  /** Whether steps can be applied at all. */
  canApply(held: CopyState): boolean
}

/** What became of the copy: the events were applied, or the feed was read. Rejects when the copy cannot be written. */
export async function catchUp(options: CatchingUpOptions): Promise<FeedReading> {
  const { copy, inbox, clock, signal, read, canApply } = options
  const patiently = patient(options)

  async function apply(): Promise<FeedReading | 'unfinished' | 'unknown'> {
    const held = await copy.state()
    if (!held || !canApply(held)) return 'unknown'
    const path = pathFrom(held, inbox.steps())
    const last = path.at(-1)
    const changes = changesOf(path)
    if (!last && inbox.steps().length > 0) return 'unfinished' // the steps before them may still arrive
    if (!last || !changes) return 'unknown'
    const { to } = last
    const reply = await patiently({ pagination: { max_results: 1 }, ...conditionOf(to) })
    if (reply.kind === 'trouble') return failed('trouble', reply.message)
    if (reply.kind !== 'answer') return 'unknown'
    if (!confirms(reply.answer, { ...held, ...to })) return 'unfinished' // not yet where the steps end
    const state = await copy.amend(changes, to)
    if (!state) return 'unknown'
    inbox.taken(path)
    return { kind: 'applied', state }
  }

  const endsAt = clock.now() + PATIENCE_MS
  for (let quietMs = GATHER_MS; !signal.aborted && clock.now() < endsAt; ) {
    const rung = inbox.rung()
    await pause(clock, quietMs, AbortSignal.any([signal, inbox.next()]))
    const outcome = inbox.rung() > rung ? 'unfinished' : await apply()
    if (outcome === 'unknown') break
    if (outcome !== 'unfinished') return outcome
    const isMoreComing = inbox.rung() > rung
    if (!isMoreComing && quietMs === QUIET_MS) break
    quietMs = isMoreComing ? GATHER_MS : QUIET_MS
  }
  const told = inbox.reading()
  const reading = await read()
  inbox.taken(told)
  return reading
}
