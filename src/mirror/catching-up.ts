/**
 * Brings what the agent reported into the copy: steps that begin at the version that is held and follow each other without a
 * gap are applied once the agent confirms that they end at its current version. Otherwise the feed is read, as on schedule.
 */
import { type Clock, pause } from '../net/clock.js'
import type { FeedAsker } from './asker.js'
import type { Copy, CopyState } from './copy.js'
import { changesOf, pathFrom, type Step } from './event-steps.js'
import type { Inbox } from './inbox.js'
import { conditionOf, confirms, type FeedReading } from './reading.js'

/**
 * Events of one change arrive one after the other: waits for a pause between them, and no longer than `PATIENCE_MS`. All
 * in ms.
 */
const GATHER_MS = 50
const QUIET_MS = 1_000
const PATIENCE_MS = 60_000

type CatchingUpOptions = {
  asker: FeedAsker
  /** Account of the reading. */
  question: Readonly<Record<string, unknown>>
  copy: Copy
  inbox: Inbox
  clock: Clock
  signal: AbortSignal
  /** Reads the feed as on schedule. */
  read(): Promise<FeedReading>
  /** Whether steps can be applied at all. */
  canApply(held: CopyState): boolean
}

/** What became of the copy: the events were applied, or the feed was read. Rejects when the copy cannot be written. */
export async function catchUp(options: CatchingUpOptions): Promise<FeedReading> {
  const { asker, question, copy, inbox, clock, signal, read, canApply } = options

  /** Whether the agent's current version is the one that the steps end at. */
  async function isThere(held: CopyState, { to }: Step): Promise<boolean> {
    const asked = {
      discovery_mode: 'wholesale',
      ...question,
      pagination: { max_results: 1 },
      ...conditionOf(to),
    }
    const reply = await asker.ask('get_signals', asked)
    return reply.kind === 'answer' && confirms(reply.answer, { ...held, ...to })
  }

  async function apply(): Promise<FeedReading | 'unfinished' | 'unknown'> {
    const held = await copy.state()
    if (!held || !canApply(held)) return 'unknown'
    const path = pathFrom(held, inbox.steps())
    const last = path.at(-1)
    const changes = changesOf(path)
    if (!last && inbox.steps().length > 0) return 'unfinished' // the steps before them may still arrive
    if (!last || !changes) return 'unknown'
    if (!(await isThere(held, last))) return 'unfinished'
    const state = await copy.amend(changes, last.to)
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
