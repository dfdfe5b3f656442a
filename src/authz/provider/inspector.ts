/**
 * Inspects files without holding up the thread that serves requests: small ones in place, large ones in a worker
 * of their own, one at a time, with a bound on the memory their parsing may take.
 */
import pLimit from 'p-limit'
import { startThread } from '../../threads/start-thread.js'
import { type Inspection, inspect } from '../inspect.js'

const IN_PLACE_BYTES = 256 * 1024 // about 2 ms of scanning and parsing
const PARSE_MEMORY_MB = 512 // what inspect.ts lets through stays below; should it not, only the worker ends

/** The inspection, and the same bytes in shared memory. */
export type Examine = (body: Uint8Array) => Promise<{ inspection: Inspection; bytes: Uint8Array }>

function inWorker(bytes: Uint8Array): Promise<Inspection> {
  return new Promise((resolve, reject) => {
    const worker = startThread(new URL('./inspect-worker.js', import.meta.url), {
      workerData: bytes,
      resourceLimits: { maxOldGenerationSizeMb: PARSE_MEMORY_MB },
    })
    worker.once('message', resolve)
    worker.once('error', (error: NodeJS.ErrnoException) => {
      // A file that exhausts the worker is a file that cannot be used: an outcome, not a fault of ours.
      if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return reject(error)
      resolve({ kind: 'invalid', message: 'the file takes too much memory to read' })
    })
  })
}

export function createInspector(): Examine {
  const oneAtATime = pLimit(1)
  return async (body) => {
    const bytes = new Uint8Array(new SharedArrayBuffer(body.byteLength))
    bytes.set(body)
    const inspection =
      bytes.byteLength <= IN_PLACE_BYTES ? inspect(bytes) : await oneAtATime(() => inWorker(bytes))
    return { inspection, bytes }
  }
}
