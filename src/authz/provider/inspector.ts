/**
 * Reads new files and searches held ones without blocking the thread that serves: small files in place, large ones in a
 * thread, one at a time, with a bound on the memory that reading may use.
 */
import { nextOwnPortion } from '../../process/portions.js'
import { answerJobs, createPool } from '../../process/threads.js'
import { type Inspection, inspect } from '../rules/tables.js'
import { type Granted, grantedTo, lists, NOTHING_GRANTED, type ProviderState } from '../rules/verdict.js'

const IN_PLACE_BYTES = 128 * 1024 // about 2 ms of scanning, parsing and sorting; a thread costs 70 ms to start
const COPIED_AT_ONCE = 4 * 1024 * 1024
const PARSE_MEMORY_MB = 768 // what authz/rules/tables.ts accepts needs less; if not, only the thread ends

/** A job of the thread: read the bytes, or find what a provider grants to an agent. */
type InspectorJob = { bytes: Uint8Array } | { state: ProviderState; agentUrl: string; nowMs: number }

/** What the body says, and its bytes in shared memory. */
export type Examine = (body: Uint8Array) => Promise<{ inspection: Inspection; bytes: Uint8Array }>

/** Copies the bytes to shared memory. New memory is slow at first use, so the copy yields to other work in between. */
async function shared(body: Uint8Array): Promise<Uint8Array> {
  const bytes = new Uint8Array(new SharedArrayBuffer(body.byteLength))
  for (let at = 0; at < body.byteLength; at += COPIED_AT_ONCE) {
    if (at > 0) await nextOwnPortion()
    bytes.set(body.subarray(at, at + COPIED_AT_ONCE), at)
  }
  return bytes
}

/** Its thread starts with the first file that is too large to be read in place. */
export function createInspector() {
  const thread = createPool<InspectorJob, Inspection | Granted>({
    code: new URL('./inspector.js', import.meta.url),
    ...{ size: 1, heapMb: PARSE_MEMORY_MB },
  })

  async function readInThread(bytes: Uint8Array): Promise<Inspection> {
    try {
      return (await thread.run('', { bytes }, [], bytes.byteLength)) as Inspection
    } catch (error) {
      // A file that exhausts the thread cannot be used: this is an outcome, not a bug of ours.
      if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error
      return { kind: 'invalid', message: 'the file takes too much memory to read' }
    }
  }

  const examine: Examine = async (body) => {
    const bytes = await shared(body)
    const inspection = bytes.byteLength <= IN_PLACE_BYTES ? inspect(bytes) : await readInThread(bytes)
    return { inspection, bytes }
  }

  /**
   * What a provider grants to an agent (canonical url). Small files are read in turns, too, so that other work runs in
   * between.
   */
  async function granted(state: ProviderState, agentUrl: string, nowMs: number): Promise<Granted> {
    if (!state.document || !lists(state, agentUrl)) return NOTHING_GRANTED
    if (state.document.bytes.byteLength > IN_PLACE_BYTES) {
      return (await thread.run('', { state, agentUrl, nowMs }, [], 0)) as Granted
    }
    await nextOwnPortion()
    return grantedTo(state, agentUrl, nowMs)
  }

  /** `close` ends the thread; open jobs reject. */
  return { examine, granted, close: thread.close }
}

answerJobs(import.meta.url, (job: InspectorJob) =>
  'state' in job ? grantedTo(job.state, job.agentUrl, job.nowMs) : inspect(job.bytes),
)
