/**
 * Work that is promised to a caller, such as a call that changes something at an upstream. What will be done is stored before it
 * begins, a call with the derived key under which it is sent, and its outcome is stored before anybody hears of it, so that each
 * happens once. Each of the two steps is stored completely or not at all. Steps that arrive together share statements and one
 * commit, because a commit waits for the disk and a statement is a round trip to the database.
 */
import { createLots } from './database/storage-work.js'
import type { Added, Hold, JobEnd, Jobs, NewJob } from './jobs.js'
import type { Binding, Idempotency, KeyedAnswer, KeyedRequest } from './records/idempotency.js'
import type { Ledger, NewEntry, Settlement } from './records/ledger.js'
import type { NewTask, Tasks } from './records/tasks.js'

/** The records that promised work consists of. */
export type PromisedRecords = { idempotency: Idempotency; jobs: Jobs; ledger: Ledger; tasks: Tasks }

/** A ledger entry; the job with its id gives it its number in the sequence. */
export type EntryOfJob = Omit<NewEntry, 'seq'>

type Undertaking = {
  /** The request that is bound to its key together with the jobs; if the key is taken, nothing is written. */
  request: KeyedRequest
  jobs: readonly NewJob[]
  hold: Hold
  entries: readonly EntryOfJob[]
}

/** `fresh`: the key was free, and the jobs are stored. */
type Undertaken = { kind: 'fresh'; jobs: Added[] } | Exclude<Binding, { kind: 'fresh' }>

export type Ending = JobEnd & {
  /** The new state of the job's ledger entry. */
  settlement?: Settlement
  /** The answer for repetitions of its request. */
  kept?: unknown
  /** Nothing was done under the key of its request, so the key becomes free again. */
  frees?: boolean
  /** Tasks that continue after the call. */
  tasks?: readonly NewTask[]
  jobs?: readonly NewJob[]
  /**
   * Further jobs, computed in the transaction that stores the ending: until it commits, nobody can store another job
   * for the same target.
   */
  decide?: (records: PromisedRecords) => Promise<Decided>
}

export type Decided = { jobs: readonly NewJob[]; entries: readonly EntryOfJob[] }

export type Steps = {
  undertake(undertaking: Undertaking): Promise<Undertaken>
  /** False when the job had ended, or another process holds it: then nothing was written. */
  conclude(ending: Ending): Promise<boolean>
}

function numbered(entries: readonly EntryOfJob[], added: readonly Added[]): NewEntry[] {
  const seqs = new Map(added.map(({ job }) => [job.id, job.seq]))
  return entries.map((entry) => ({ ...entry, seq: seqs.get(entry.id) ?? 0 }))
}

/** Stores the further jobs. */
export async function addDecided(
  { jobs, ledger }: PromisedRecords,
  { jobs: more, entries }: Decided,
): Promise<void> {
  const added = await jobs.addAll(more.map((job) => ({ job })))
  await ledger.recordAll(numbered(entries, added))
}

async function endAll(records: PromisedRecords, endings: readonly Ending[]): Promise<boolean[]> {
  const { jobs, ledger, idempotency, tasks } = records
  const decided = endings.flatMap(({ decide, held }) => (decide && held.target ? [held.target] : []))
  await jobs.inTurn([...new Set(decided)])
  const ended = await jobs.endAll(endings)
  const first = endings.filter((_, index) => ended[index])
  const settlements = first.flatMap(({ held, settlement }) =>
    settlement ? [[held.id, settlement] as const] : [],
  )
  const answers = first.flatMap(({ held: { caller, key }, kept }): KeyedAnswer[] =>
    kept === undefined ? [] : [{ caller, key, answer: kept }],
  )
  await ledger.settleAll(new Map(settlements))
  await idempotency.answerAll(answers)
  for (const { held, frees } of first) if (frees) await idempotency.release(held.caller, held.key)
  for (const task of first.flatMap((one) => one.tasks ?? [])) await tasks.create(task)
  await jobs.addAll(first.flatMap((one) => (one.jobs ?? []).map((job) => ({ job }))))
  // One after the other, so that each sees the decisions of those before it.
  for (const { decide } of first) if (decide) await addDecided(records, await decide(records))
  return ended
}

async function undertakeAll(
  records: PromisedRecords,
  undertakings: readonly Undertaking[],
): Promise<Undertaken[]> {
  const { jobs, ledger, idempotency } = records
  const bindings = await idempotency.bindAll(
    undertakings.map(({ request, jobs: its }) => ({ ...request, calls: its.map(({ id }) => id) })),
  )
  const fresh = undertakings.filter((_, index) => bindings[index]?.kind === 'fresh')
  const added = await jobs.addAll(fresh.flatMap((one) => one.jobs.map((job) => ({ job, hold: one.hold }))))
  const entries = fresh.flatMap((one) => one.entries)
  await ledger.recordAll(numbered(entries, added))
  let at = 0
  return undertakings.map(({ jobs: { length } }, index) => {
    const binding = bindings[index] as Binding
    if (binding.kind !== 'fresh') return binding
    at += length
    return { kind: 'fresh', jobs: added.slice(at - length, at) }
  })
}

/** `transact`: runs all of the work it is given, or nothing of it. */
export function createSteps(
  transact: <T>(work: (records: PromisedRecords) => Promise<T>) => Promise<T>,
): Steps {
  return {
    undertake: createLots((lot) => transact((records) => undertakeAll(records, lot))),
    // Two batches, because endings wait for other locks than beginnings.
    conclude: createLots((lot) => transact((records) => endAll(records, lot))),
  }
}
