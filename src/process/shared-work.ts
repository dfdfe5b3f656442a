/** Work that several ask for at the same time: it is done once, and all of them have its result. */

type Shared<T> = { result: Promise<T>; askers: number; stop: AbortController }

/** Gives the function through which all ask; work is the same when its key is, and stops when the last asker has gone. */
export function createShared<K, T>() {
  const underWay = new Map<K, Shared<T>>()

  function begun(key: K, start: (signal: AbortSignal) => Promise<T>): Shared<T> {
    const stop = new AbortController()
    const work = { result: start(stop.signal), askers: 0, stop }
    underWay.set(key, work)
    const ended = () => {
      if (underWay.get(key) === work) underWay.delete(key)
    }
    work.result.then(ended, ended)
    return work
  }

  /**
   * The result of the work of this key, which begins unless it is under way. Rejects with the reason of `signal` once
   * that is aborted.
   */
  return (key: K, start: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> => {
    signal.throwIfAborted()
    const work = underWay.get(key) ?? begun(key, start)
    work.askers += 1
    return new Promise((resolve, reject) => {
      const leave = () => {
        work.askers -= 1
        if (work.askers > 0) return reject(signal.reason)
        underWay.delete(key) // whoever asks from now on begins anew
        work.stop.abort(signal.reason) // the last waits until it has stopped
      }
      signal.addEventListener('abort', leave, { once: true })
      const stay = () => signal.removeEventListener('abort', leave)
      work.result.then(resolve, reject).finally(stay)
    })
  }
}
