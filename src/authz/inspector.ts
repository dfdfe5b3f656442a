/**
 * Inspects files without holding up the thread that serves requests: small ones in place, large ones in a worker
 * of their own, one at a time, with a bound on the memory their parsing may take.
 */
import { Worker } from 'node:worker_threads'
import pLimit from 'p-limit'
import { type Inspection, inspect } from './inspect.js'

const IN_PLACE_BYTES = 256 * 1024 // about 2 ms of scanning and parsing
const PARSE_MEMORY_MB = 512 // 20 MB of JSON that is all brackets stays below; a crash ends only the worker

/** The inspection, and the same bytes in shared memory. */
export type Examine = (body: Uint8Array) => Promise<{ inspection: Inspection; bytes: Uint8Array }>

function inWorker(bytes: Uint8Array): Promise<Inspection> {
  return new Promise((resolve) => {
    const worker = new Worker(new URL('./inspect-worker.js', import.meta.url), {
      workerData: bytes,
      resourceLimits: { maxOldGenerationSizeMb: PARSE_MEMORY_MB },
    })
    // A file that exhausts the worker is a file that cannot be used: an outcome, not a fault of ours.
    const unusable = () => resolve({ kind: 'invalid', message: 'the file takes too much memory to read' })
    worker.once('message', (inspection: Inspection) => resolve(inspection))
    worker.once('error', unusable)
    worker.once('exit', unusable)
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
