/**
 * A few threads that run jobs one at a time. Jobs wait in a queue per key and the keys take turns, so that a key with many jobs
 * delays no other. When a thread runs out of memory or time, only its own job fails. What a thread does stands in the module that
 * it is started with, beside everything else that is known of that work.
 */
import { pathToFileURL } from 'node:url'
import { parentPort, type Transferable, type Worker, type WorkerOptions } from 'node:worker_threads'
import { largestOf } from './fair-bytes.js'
import { startThread } from './threads.js'

/**
 * In a thread that was started with this module (`import.meta.url`): answers each message with what `work` makes of it.
 * Wherever else the module is loaded, nothing. `moved`: memory of a reply that goes along and is not copied.
 */
export function answerJobs<Job, Reply>(
  module: string,
  work: (job: Job) => Reply,
  moved: (reply: Reply) => Transferable[] = () => [],
): void {
  const port = parentPort
  const [, started] = process.argv
  if (!port || started === undefined || pathToFileURL(started).href !== module) return
  port.on('message', (job: Job) => {
    const reply = work(job)
    port.postMessage(reply, moved(reply))
  })
}

/** A job that no thread has begun: nothing is wrong with it. */
export class NotBegun extends Error {}

type PoolOptions = Pick<WorkerOptions, 'workerData'> & {
  /** The module that answers jobs (`answerJobs`). */
  code: URL
  size: number
  /** Heap of one thread, in MB. */
  heapMb: number
  /** The time limit of one job, ms. Default: none. */
  jobMs?: number
  /**
   * Bytes of jobs that may wait together. Beyond it, the largest job of the key with most waiting bytes is given up.
   * Default: no bound.
   */
  waitingBytes?: number
}

type Waiting<Job, Reply> = {
  job: Job
  transfer: readonly Transferable[]
  bytes: number
  resolve(reply: Reply): void
  reject(error: Error): void
}

/** The code receives one job per message and answers each with one message. Threads start when they are needed. */
export function createPool<Job, Reply>(options: PoolOptions) {
  const { code, size, heapMb, workerData, jobMs, waitingBytes = Number.POSITIVE_INFINITY } = options
  const queues = new Map<string, Waiting<Job, Reply>[]>()
  const threads = new Set<Worker>()
  const idle: Worker[] = []
  let running = 0
  let waitingNow = 0
  let isClosed = false

  function opened(): Worker {
    try {
      return startThread(code, { workerData, resourceLimits: { maxOldGenerationSizeMb: heapMb } })
    } catch (error) {
      throw new NotBegun(`no thread can be started: ${(error as Error).message}`)
    }
  }

  /** Throws when the system has no thread left. A thread that ends while it is idle gets no more jobs. */
  function start(): void {
    const worker = opened()
    threads.add(worker)
    const forget = () => {
      threads.delete(worker)
      const at = idle.indexOf(worker)
      if (at >= 0) idle.splice(at, 1)
    }
    worker.on('error', forget).on('exit', forget).unref()
    idle.push(worker)
  }

  /** The next job of the key whose last turn is longest ago. */
  function next(): Waiting<Job, Reply> | undefined {
    const [first] = queues
    if (!first) return undefined
    const [key, queue] = first
    const waiting = queue.shift()
    waitingNow -= waiting?.bytes ?? 0
    queues.delete(key)
    if (queue.length > 0) queues.set(key, queue)
    return waiting
  }

  /** Gives the job to a thread. Throws when none can be started, or the job cannot be sent; threads stay as they were. */
  function work({ job, transfer, resolve, reject }: Waiting<Job, Reply>): void {
    if (idle.length === 0) start()
    const worker = idle.at(-1) as Worker
    worker.postMessage(job, transfer)
    idle.pop()
    running += 1
    const late = jobMs === undefined ? undefined : setTimeout(() => void worker.terminate(), jobMs)
    const settle = (act: () => void) => {
      clearTimeout(late)
      worker.off('message', onMessage).off('error', onError).off('exit', onExit)
      running -= 1
      act()
      serve()
    }
    const onMessage = (reply: Reply) => {
      worker.unref()
      idle.push(worker)
      settle(() => resolve(reply))
    }
    const onError = (error: Error) => settle(() => reject(error))
    const onExit = () =>
      settle(() => reject(new Error('its thread ended, or was ended because it took too long')))
    worker.on('message', onMessage).on('error', onError).on('exit', onExit)
    worker.ref() // keeps the process alive until the job is done
  }

  function serve(): void {
    while (running < size && queues.size > 0) {
      const waiting = next()
      if (!waiting) return
      try {
        work(waiting)
      } catch (error) {
        waiting.reject(error as Error)
      }
    }
  }

  const ended = () => new NotBegun('the threads were ended')
  const bytesOf = (queue: readonly Waiting<Job, Reply>[]) => queue.reduce((sum, { bytes }) => sum + bytes, 0)

  function giveUpLargest(): void {
    const [key, queue = []] = largestOf(queues, ([, waiting]) => bytesOf(waiting)) ?? []
    const largest = largestOf(queue, ({ bytes }) => bytes)
    if (key === undefined || !largest) return
    queue.splice(queue.indexOf(largest), 1)
    if (queue.length === 0) queues.delete(key)
    waitingNow -= largest.bytes
    largest.reject(new NotBegun(`more than ${waitingBytes} bytes wait to be read`))
  }

  return {
    /**
     * Moves what `transfer` names to the thread; `bytes` is the size of the job. Rejects when the job is given up, by `NotBegun`
     * where no thread had it.
     */
    run(key: string, job: Job, transfer: readonly Transferable[], bytes: number): Promise<Reply> {
      return new Promise((resolve, reject) => {
        if (isClosed) throw ended()
        const queue = queues.get(key) ?? []
        queue.push({ job, transfer, bytes, resolve, reject })
        queues.set(key, queue)
        waitingNow += bytes
        serve()
        while (waitingNow > waitingBytes) giveUpLargest()
      })
    },
    /** Ends the threads; jobs that were not answered yet are rejected, and those that come later. */
    async close(): Promise<void> {
      isClosed = true
      const waiting = [...queues.values()].flat()
      queues.clear()
      waitingNow = 0
      for (const { reject } of waiting) reject(ended())
      await Promise.all([...threads].map((thread) => thread.terminate()))
    },
  }
}
