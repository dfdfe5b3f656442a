/**
 * The two steps of work that is promised: what is undertaken is written down before anything is done, and how it ended
 * before anybody is told. Each is a value, kept whole or not at all; many that come together are written by the same few
 * statements and in one commit, as a commit is a wait for the disk, and a statement a journey to the database.
 */
import type { Binding, KeyedAnswer, KeyedRequest } from '../records/idempotency.js'
import type { NewEntry, Settlement } from '../records/ledger.js'
import type { NewTask } from '../records/tasks.js'
import type { Repositories } from '../store.js'
import { isUnavailable } from '../unavailable.js'
import type { Added, Hold, JobEnd, NewJob } from './jobs.js'

/** An entry of the ledger whose number in the sequence is that of the job with its id. */
export type EntryOfJob = Omit<NewEntry, 'seq'>

export type Undertaking = {
  /** Bound to its key with the jobs, or nothing is written. */
  request: KeyedRequest
  jobs: readonly NewJob[]
  hold: Hold
  entries: readonly EntryOfJob[]
}

/** Fresh: the key was free, and the jobs are written down. */
export type Undertaken = { kind: 'fresh'; jobs: Added[] } | Exclude<Binding, { kind: 'fresh' }>

export type Ending = JobEnd & {
  /** What came of the ledger's entry of the job. */
  settlement?: Settlement
  /** What repetitions of its request are answered with. */
  kept?: unknown
  /** Nothing was done under the key of its request: it may be used again. */
  frees?: boolean
  /** What goes on. */
  tasks?: readonly NewTask[]
  jobs?: readonly NewJob[]
  entries?: readonly EntryOfJob[]
}

export type Steps = {
  undertake(undertaking: Undertaking): Promise<Undertaken>
  /** False when the job had ended, or somebody else holds it: then nothing is written. */
  conclude(ending: Ending): Promise<boolean>
}

const MOST_TOGETHER = 128 // bounds how long one waits for the others, and how long their statements take to write

type Step =
  | { kind: 'undertaking'; what: Undertaking; resolve(value: Undertaken): void; reject(error: unknown): void }
  | { kind: 'ending'; what: Ending; resolve(value: boolean): void; reject(error: unknown): void }

type Results = { undertaken: Undertaken[]; ended: boolean[] }

function numbered(entries: readonly EntryOfJob[], added: readonly Added[]): NewEntry[] {
  const seqs = new Map(added.map(({ job }) => [job.id, job.seq]))
  return entries.map((entry) => ({ ...entry, seq: seqs.get(entry.id) ?? 0 }))
}

async function endAll(repositories: Repositories, endings: readonly Ending[]): Promise<boolean[]> {
  const { jobs, ledger, idempotency, tasks } = repositories
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
  const added = await jobs.addAll(first.flatMap((one) => (one.jobs ?? []).map((job) => ({ job }))))
  const entries = first.flatMap((one) => one.entries ?? [])
  await ledger.recordAll(numbered(entries, added))
  return ended
}

async function undertakeAll(
  repositories: Repositories,
  undertakings: readonly Undertaking[],
): Promise<Undertaken[]> {
  const { jobs, ledger, idempotency } = repositories
  const bindings = await idempotency.bindAll(undertakings.map(({ request }) => request))
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

/** `transact`: all of what it is given to do, or nothing of it. */
export function createSteps(
  transact: <T>(work: (repositories: Repositories) => Promise<T>) => Promise<T>,
): Steps {
  const waiting: Step[] = []
  let isWriting = false

  async function write(steps: readonly Step[]): Promise<void> {
    const undertakings = steps.flatMap((step) => (step.kind === 'undertaking' ? [step] : []))
    const endings = steps.flatMap((step) => (step.kind === 'ending' ? [step] : []))
    try {
      const { undertaken, ended } = await transact(
        async (repositories): Promise<Results> => ({
          ended: await endAll(
            repositories,
            endings.map(({ what }) => what),
          ),
          undertaken: await undertakeAll(
            repositories,
            undertakings.map(({ what }) => what),
          ),
        }),
      )
      for (const [index, { resolve }] of undertakings.entries()) resolve(undertaken[index] as Undertaken)
      for (const [index, { resolve }] of endings.entries()) resolve(ended[index] as boolean)
    } catch (error) {
      if (steps.length === 1 || isUnavailable(error)) {
        for (const { reject } of steps) reject(error)
      } else {
        for (const step of steps) await write([step]) // one that cannot be written takes none with it
      }
    }
  }

  async function drain(): Promise<void> {
    isWriting = true
    while (waiting.length > 0) await write(waiting.splice(0, MOST_TOGETHER))
    isWriting = false
  }

  function add(step: Step): void {
    waiting.push(step)
    if (!isWriting) void drain()
  }

  return {
    undertake: (what) =>
      new Promise((resolve, reject) => add({ kind: 'undertaking', what, resolve, reject })),
    conclude: (what) => new Promise((resolve, reject) => add({ kind: 'ending', what, resolve, reject })),
  }
}
