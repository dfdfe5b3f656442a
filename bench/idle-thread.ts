/**
 * A thread that does nothing, in the process that is measured: how long it is stopped all the same is what the machine, and
 * whoever else works on it, makes of any thread.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Limit } from './report.js'

const WATCHING = `
  const { parentPort } = require('node:worker_threads')
  const delay = require('node:perf_hooks').monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  parentPort.once('message', () => parentPort.postMessage(delay.max / 1e6))
  parentPort.postMessage('started')`

/** Resolves once it watches; the returned function ends it, with its longest stop, ms. */
export async function watchIdleThread(): Promise<() => Promise<Limit>> {
  const thread = new Worker(WATCHING, { eval: true })
  await once(thread, 'message')
  return async () => {
    const said = once(thread, 'message')
    thread.postMessage('end')
    const [is] = (await said) as [number]
    await thread.terminate()
    return { is, of: 'a thread of the same process that does nothing, meanwhile' }
  }
}
