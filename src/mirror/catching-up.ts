/**
 * Brings the copy up to date by what the agent notifies (specification, "Events"; schema core/wholesale-feed-webhook). Notified changes
 * are read as steps from one version of the feed to the next and wait in an inbox, which need not be durable. Steps that begin at the
 * version that is held and follow each other without a gap are applied once the agent confirms that they end at its current version.
 * Otherwise, as after a step that was lost or dropped, the feed is read, as on schedule.
 */
import { isRecord } from '../adcp/json.js'
import { pause } from '../net/clock.js'
import type { Copy, CopyState, RowChange, RowChanges } from './copy.js'
import {
  type AskingOptions,
  conditionOf,
  confirms,
  type FeedReading,
  failedReading,
  patient,
  textIn,
} from './reading.js'

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
    if (reply.kind === 'trouble') return failedReading('trouble', reply.message)
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
