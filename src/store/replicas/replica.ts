/** This process among others on one storage: its share of the work, and the notes between them. */

import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { Clock } from '../../net/clock.js'
import type { AddedBlobs } from '../../upstreams/rows/blobs.js'
import type { Sharing } from '../../upstreams/rows/sharing.js'
import { createBoard } from './board.js'
import type { Lease, Leases } from './leases.js'
import { createMembership } from './membership.js'
import type { Notes } from './notes.js'
import { createPassed } from './passed.js'
import { createRevisions } from './revisions.js'

/** What the database offers to processes that work on one state. */
export type Replicas = {
  /** The database's time, ms since the epoch. */
  now(): Promise<number>
  leases: Leases
  notes: Notes
  /** Replaces a blob while the lease stands; false when it does not. */
  write(lease: Lease, name: string, parts: readonly Uint8Array[]): Promise<boolean>
  /** Removes a blob while the lease stands. */
  remove(lease: Lease, name: string): Promise<void>
  /** Bytes that go with each of these blobs, when those before it have gone. */
  freed(blobs: readonly string[]): Promise<number[]>
  /** Removes bytes that no blob is made of any more. */
  sweep(): Promise<void>
  /** Calls back whenever there may be new notes. Returns a function that stops it. */
  listen(onNews: () => void): () => Promise<void>
}

const SWEEPING = 'storage/sweeping'
const SWEEP_EVERY_MS = 60_000

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

export type Replica = ReturnType<typeof createReplica>

/** It reads no notes before `listen`, and has no work before `join`. */
export function createReplica({ replicas, clock, self, revision, form, log }: ReplicaOptions) {
  const onProblem = (problem: string) => log.warn({ problem }, 'replicas')
  const { leases, notes, listen, write, remove } = replicas
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
    want: (kind, names) => membership.want(kind, names),
    lead: (kind, names) => membership.want(kind, names, () => revisions.newest()),
    forms: () => revisions.forms(),
    turn: membership.lease,
    onTurns: (listener) => void membership.onChange(listener),
    pass: passed.pass,
    tell: board.tell,
    hear: board.hear,
    write: (blob, parts, under) => write(under, blob, parts),
    remove: (blob, under) => remove(under, blob),
    freed: replicas.freed,
  }
  const { members } = membership
  const revisions = createRevisions({
    ...{ sharing, clock, self, members, revision, form },
    onChange: () => membership.look(),
  })
  let cancelSweep = () => {}

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
    sharing,
    members,
    revisions,
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

const NAME = 'cursor-secret'

/**
 * What cursors are signed with: the same for all processes that share a storage, also for those that start at the same
 * moment, and after every restart. Rejects when the storage cannot keep it.
 */
export async function cursorSecret(blobs: AddedBlobs): Promise<Uint8Array> {
  const [known] = (await blobs.read(NAME)) ?? []
  if (known) return known
  const fresh = randomBytes(32)
  await blobs.add(NAME, [fresh])
  const [kept] = (await blobs.read(NAME)) ?? []
  if (kept) return kept
  await blobs.write(NAME, [fresh]) // there is one, and it is damaged: cursors from before are lost either way
  return fresh
}
