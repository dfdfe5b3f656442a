/**
 * Brings the copy up to date by what the agent notifies (specification, "Events"; schema core/wholesale-feed-webhook). Steps that begin
 * at the version that is held and follow each other without a gap are applied once the agent confirms that they end at its current
 * version. Otherwise, as after a step that was lost or dropped, the feed is read, as on schedule.
 */
import { pause } from '../net/clock.js'
import type { Copy, CopyState } from './copy.js'
import type { Inbox } from './inbox.js'
import {
  type AskingOptions,
  conditionOf,
  confirms,
  type FeedReading,
  failedReading,
  incompleteIn,
  patient,
} from './reading.js'
import { changesOf, pathFrom } from './steps.js'

/**
 * Events of one change arrive one after the other: waits for a pause between them, and no longer than `PATIENCE_MS`. All
 * in ms.
 */
const GATHER_MS = 50
const QUIET_MS = 1_000
const PATIENCE_MS = 60_000

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
    const state = await copy.amend(changes, { ...to, incomplete: incompleteIn(reply.answer) })
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
