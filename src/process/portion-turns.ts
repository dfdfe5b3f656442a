/**
 * Whose portion is next on the thread that serves. Works that are under way at the same time take turns: those that somebody
 * waits for among themselves, and those of our own.
 */

/** Portions that wait for their turn, in the order of the calls: one begins in each turn of the loop. */
function createLine(): () => Promise<void> {
  const waiting: (() => void)[] = []
  let isDealing = false

  function deal(): void {
    isDealing = waiting.length > 1
    if (isDealing) setImmediate(deal)
    waiting.shift()?.()
  }

  return () =>
    new Promise((resolve) => {
      waiting.push(resolve)
      if (isDealing) return
      isDealing = true
      setImmediate(deal)
    })
}

/**
 * Resolves when the next portion of work that somebody waits for may begin. After a new generation several works are under
 * way, and requests would wait for a portion of each of them otherwise (docs/decisions.md#portions-take-turns).
 */
export const nextPortion = createLine()

/** The same for work of our own, which hardly anybody waits for: it has turns of its own, so questions do not wait for them. */
export const nextOwnPortion = createLine()

async function run<T>(
  work: Iterator<unknown, T>,
  next: () => Promise<void>,
  signal?: AbortSignal,
): Promise<T> {
  for (;;) {
    await next()
    if (signal?.aborted) {
      work.return?.()
      throw signal.reason
    }
    const step = work.next()
    if (step.done) return step.value
  }
}

/**
 * Runs work that somebody waits for in portions and returns its result. Once the signal is aborted, the work is left at its
 * next stop and the promise rejects with the signal's reason.
 */
export const inTurns = <T>(work: Iterator<unknown, T>, signal?: AbortSignal): Promise<T> =>
  run(work, nextPortion, signal)

/** Runs work of our own in portions and returns its result. */
export const inOwnTurns = <T>(work: Iterator<unknown, T>): Promise<T> => run(work, nextOwnPortion)
