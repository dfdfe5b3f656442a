/** This process among others on one storage: its own share of the work, with the notes between them. */
import type { Logger } from 'pino'
import type { Clock } from '../../net/clock.js'
import type { Sharing } from '../../upstreams/rows/storage.js'
import type { Leases } from './leases.js'
import { createMembership } from './membership.js'
import { createBoard, LACKING, type Notes } from './notes.js'
import { createPassed } from './passed.js'
import { createRevisions } from './revisions.js'

const SWEEPING = 'storage/sweeping' // the name of the work
const SWEEP_EVERY_MS = 60_000

/** What the database offers to processes that work on one state. */
export type Replicas = Pick<Sharing, 'write' | 'remove' | 'freed'> & {
  /** The database's time, ms since the epoch. */
  now(): Promise<number>
  leases: Leases
  notes: Notes
  /** Writes those of these pieces of blobs again that this process holds and the storage lacks. */
  mend(pieces: readonly string[]): Promise<void>
  /** Removes bytes that no blob is made of any more. */
  sweep(): Promise<void>
  /** Calls back whenever there may be new notes. Returns a function that stops it. */
  listen(onNews: () => void): () => Promise<void>
}

type ReplicaOptions = {
  replicas: Replicas
  clock: Clock
  /** Names this process. */
  self: string
  /** Of the configuration that this process runs now. */
  revision: () => string
  /** Of the snapshots that this process writes and reads. */
  form: number
  log: Logger
}

/** It reads no notes before `listen`, and has no work before `join`. */
export function createReplica({ replicas, clock, self, revision, form, log }: ReplicaOptions) {
  const onProblem = (problem: string) => log.warn({ problem }, 'replicas')
  const { leases, notes, listen, write, remove, freed } = replicas
  const board = createBoard({ notes, listen, clock, onProblem })
  let joined = false
  const passed = createPassed({
    ...{ sharing: board, clock, self },
    members: () => membership.members(),
    onPassed: async () => {
      if (joined) await membership.round()
    },
  })
  const membership = createMembership({ leases, clock, self, passedBy: passed.by, onProblem })
  const sharing: Sharing = {
    want: (kind, names) => membership.want(kind, names, { also: () => revisions.newest() }),
    lead: (kind, names) => membership.want(kind, names, { only: () => revisions.newest() }),
    isNewest: () => revisions.isNewest(),
    forms: () => revisions.forms(),
    turn: membership.lease,
    onTurns: (listener) => void membership.onChange(listener),
    pass: passed.pass,
    ...{ tell: board.tell, keep: board.keep, hear: board.hear, heard: board.heard, write, remove, freed },
  }
  const { members } = membership
  const revisions = createRevisions({
    ...{ sharing, clock, self, members, revision, form },
    onChange: () => membership.look(),
  })
  let cancelSweep = () => {}

  board.hear(LACKING, (_name, pieces) => {
    void replicas
      .mend(pieces as string[])
      .catch((error: Error) => onProblem(`damaged bytes stay in the storage: ${error.message}`))
  })

  async function sweep(): Promise<void> {
    if (membership.lease(SWEEPING)) {
      await replicas
        .sweep()
        .catch((error: Error) => onProblem(`old bytes stay in the storage: ${error.message}`))
    }
    sweepLater()
  }

  function sweepLater(): void {
    cancelSweep = clock.after(SWEEP_EVERY_MS, () => void sweep())
  }

  return {
    ...{ sharing, self, members, revisions },
    /** Resolves when it has read the others' notes. */
    listen: board.start,
    /** Takes part from now on; resolves when it has its share of the work. */
    async join(): Promise<void> {
      membership.want('storage', [SWEEPING])
      revisions.start()
      joined = true
      await membership.start()
      sweepLater()
    },
    /** The others can take its work at once. */
    async close(): Promise<void> {
      joined = false
      cancelSweep()
      revisions.close()
      await membership.close()
      await board.close()
    },
  }
}
