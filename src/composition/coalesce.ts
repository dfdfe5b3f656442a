/** Runs one piece of work at a time; whatever asks for it meanwhile is served by one more run. */
export type Coalescer = {
  /** Resolves when a run that began after this call has ended. */
  request(): Promise<void>
  /** No run begins any more; resolves when the one under way has ended. */
  close(): Promise<void>
}

/** `work` must not reject: what can go wrong in it is its own to report. */
export function createCoalescer(work: () => Promise<void>): Coalescer {
  let running: Promise<void> | undefined
  let waiting: Promise<void> | undefined
  let closed = false

  function run(): Promise<void> {
    running = work().finally(() => {
      running = undefined
    })
    return running
  }

  function request(): Promise<void> {
    if (closed) return Promise.resolve()
    if (!running) return run()
    waiting ??= running.then(() => {
      waiting = undefined
      return closed ? undefined : run()
    })
    return waiting
  }

  return {
    request,
    async close() {
      closed = true
      await running
    },
  }
}
