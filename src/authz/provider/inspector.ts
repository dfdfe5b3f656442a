/**
 * Reads new files and searches held ones without blocking the thread that serves: small files in place, large ones in a
 * worker, one at a time, with a bound on the memory that reading may use.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import pLimit from 'p-limit'
import { startThread } from '../../process/threads.js'
import { type Inspection, inspect } from '../rules/tables.js'
import { type Granted, grantedTo, lists, NOTHING_GRANTED, type ProviderState } from '../rules/verdict.js'

const IN_PLACE_BYTES = 128 * 1024 // about 2 ms of scanning, parsing and sorting; a thread costs 70 ms to start
const COPIED_AT_ONCE = 4 * 1024 * 1024
const PARSE_MEMORY_MB = 768 // what authz/rules/tables.ts accepts needs less; if not, only the worker ends

/** A job of the worker: read the bytes, or find what a provider grants to an agent. */
export type InspectorJob = { bytes: Uint8Array } | { state: ProviderState; agentUrl: string; nowMs: number }

/** What the body says, and its bytes in shared memory. */
export type Examine = (body: Uint8Array) => Promise<{ inspection: Inspection; bytes: Uint8Array }>

/** Copies the bytes to shared memory. New memory is slow at first use, so the copy yields to other work in between. */
async function shared(body: Uint8Array): Promise<Uint8Array> {
  const bytes = new Uint8Array(new SharedArrayBuffer(body.byteLength))
  for (let at = 0; at < body.byteLength; at += COPIED_AT_ONCE) {
    if (at > 0) await nextTurn()
    bytes.set(body.subarray(at, at + COPIED_AT_ONCE), at)
  }
  return bytes
}

function answerOf<Reply>(worker: Worker, job: InspectorJob): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      worker.off('message', onMessage).off('error', onError).off('exit', onExit)
      act()
    }
    const onMessage = (reply: Reply) => settle(() => resolve(reply))
    const onError = (error: Error) => settle(() => reject(error))
    const onExit = (code: number) => onError(new Error(`the worker that reads files ended with code ${code}`))
    worker.on('message', onMessage).on('error', onError).on('exit', onExit)
    worker.postMessage(job)
  })
}

/** Its worker starts with the first file that is too large to be read in place. */
export function createInspector() {
  const oneAtATime = pLimit(1)
  let worker: Worker | undefined

  /** A worker that ends by itself, busy or idle, is replaced for the next file. */
  function started(): Worker {
    const limits = { resourceLimits: { maxOldGenerationSizeMb: PARSE_MEMORY_MB } }
    const thread = startThread(new URL('./inspect-worker.js', import.meta.url), limits)
    const lost = () => {
      if (worker === thread) worker = undefined
    }
    thread.on('error', lost).on('exit', lost).unref()
    return thread
  }

  function inWorker<Reply>(job: InspectorJob): Promise<Reply> {
    return oneAtATime(() => {
      worker ??= started()
      return answerOf<Reply>(worker, job)
    })
  }

  async function readInWorker(bytes: Uint8Array): Promise<Inspection> {
    try {
      return await inWorker({ bytes })
    } catch (error) {
      // A file that exhausts the worker cannot be used: this is an outcome, not a bug of ours.
      if ((error as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error
      return { kind: 'invalid', message: 'the file takes too much memory to read' }
    }
  }

  const examine: Examine = async (body) => {
    const bytes = await shared(body)
    const inspection = bytes.byteLength <= IN_PLACE_BYTES ? inspect(bytes) : await readInWorker(bytes)
    return { inspection, bytes }
  }

  /**
   * What a provider grants to an agent (canonical url). Small files are read in turns, too, so that other work runs in
   * between.
   */
  async function granted(state: ProviderState, agentUrl: string, nowMs: number): Promise<Granted> {
    if (!state.document || !lists(state, agentUrl)) return NOTHING_GRANTED
    if (state.document.bytes.byteLength > IN_PLACE_BYTES) return inWorker({ state, agentUrl, nowMs })
    await nextTurn()
    return grantedTo(state, agentUrl, nowMs)
  }

  /** Ends the worker; open jobs reject. */
  async function close(): Promise<void> {
    await worker?.terminate()
  }

  return { examine, granted, close }
}
