/**
 * Starts a thread for work that would hold up serving. It is told everything in messages, so it gets neither the
 * environment, which may hold secrets, nor the flags of this process.
 */
import { Worker, type WorkerOptions } from 'node:worker_threads'

export function startThread(
  code: URL,
  options: Pick<WorkerOptions, 'workerData' | 'resourceLimits'> = {},
): Worker {
  return new Worker(code, { ...options, env: {}, execArgv: [] })
}
