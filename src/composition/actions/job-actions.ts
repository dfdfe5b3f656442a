/** What an operator does to a job that is open: has it tried again now, or ends it undone. */
import { randomUUID } from 'node:crypto'
import type { Held, Jobs } from '../../store/jobs/jobs.js'
import type { OpenJobs } from '../../store/jobs/open-jobs.js'

type Acted = { kind: 'done' } | { kind: 'unknown' } | { kind: 'refused'; reason: string }

const HOLD_MS = 15_000 // to end it takes a few writes

export type JobActionsOptions = {
  jobs: Pick<Jobs, 'claim' | 'hasten'>
  openJobs: Pick<OpenJobs, 'get'>
  /** How a job of each kind is ended undone. */
  givingUp: Readonly<Record<string, (held: Held) => Promise<void>>>
}

const BUSY: Acted = { kind: 'refused', reason: 'it is being worked on now' }
const WAITS: Acted = { kind: 'refused', reason: 'another job that changes the same is being worked on now' }

export function createJobActions({ jobs, openJobs, givingUp }: JobActionsOptions) {
  return {
    /** Whichever process works on jobs of its kind takes it up within a second. */
    async retry(id: string): Promise<Acted> {
      const job = await openJobs.get(id)
      if (!job) return { kind: 'unknown' }
      if (job.isHeld) return BUSY
      await jobs.hasten([id])
      return { kind: 'done' }
    },
    async giveUp(id: string): Promise<Acted> {
      const job = await openJobs.get(id)
      const end = job && givingUp[job.kind]
      if (!end) return { kind: 'unknown' }
      if (job.isHeld) return BUSY
      const held = await jobs.claim(id, { owner: randomUUID(), ms: HOLD_MS }, { early: true })
      if (!held) return WAITS
      await end(held)
      return { kind: 'done' }
    },
  }
}
