/**
 * Threads for work that would block the one that serves: how they start, how they leave the cores to it, and how two that share
 * work wait for each other.
 */
import { realpathSync } from 'node:fs'
import { constants, getPriority, setPriority } from 'node:os'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Worker, type WorkerOptions } from 'node:worker_threads'

/**
 * Starts a thread for work that would block the serving thread. Everything it needs comes in messages, so it gets
 * neither the environment, which may hold secrets, nor the flags of this process. Its file is named by the place where it
 * lies, as the module there names itself, whatever links led this process to it.
 */
export function startThread(
  code: URL,
  options: Pick<WorkerOptions, 'workerData' | 'resourceLimits'> = {},
): Worker {
  const file = pathToFileURL(realpathSync(fileURLToPath(code)))
  return new Worker(file, { ...options, env: {}, execArgv: [] })
}

const NICER = 10 // then it gets a tenth of a core that another thread wants as well
let hasGivenWay = false // each thread has a copy of this module, and so one of its own

/**
 * In the worker: from now on it leaves a core to whoever else wants it (docs/decisions.md#who-builds-gives-way). Linux alone
 * has a priority for each thread; on other systems this would be that of the whole process.
 */
export function giveWay(): void {
  if (hasGivenWay || process.platform !== 'linux') return
  hasGivenWay = true
  try {
    setPriority(Math.min(getPriority() + NICER, constants.priority.PRIORITY_LOW))
  } catch {} // the system forbids it: then the thread works as it did
}

/** Where two threads wait for each other: how many have come, in shared memory. */
export type Meeting = Int32Array<SharedArrayBuffer>

export const createMeeting = (): Meeting => new Int32Array(new SharedArrayBuffer(4))

/** In one of the two: waits until the other has come as well. What either wrote before is there for both. */
export function meet(meeting: Meeting): void {
  Atomics.add(meeting, 0, 1)
  Atomics.notify(meeting, 0)
  while (Atomics.load(meeting, 0) < 2) Atomics.wait(meeting, 0, 1)
}

/** Nobody waits any longer: one of the two may not come. */
export function endMeeting(meeting: Meeting): void {
  Atomics.store(meeting, 0, 2)
  Atomics.notify(meeting, 0)
}
