/**
 * What goes to places that callers name is signed and sent by a thread of its own: whoever is served meanwhile does not wait
 * for signatures, sockets and strangers' answers (docs/decisions.md#feed-events). It starts with the first letter, and one that
 * has ended is replaced with the next. It is given a letter when its origin has a place for it: until then whoever sends the
 * letter can still do without.
 */
import type { Worker } from 'node:worker_threads'
import { createDeadline } from '../net/clock.js'
import { createPlaces } from '../net/places.js'
import type { EgressPolicy } from '../net/routes.js'
import { failed, type SendOutcome } from '../net/send.js'
import { startThread } from '../process/threads.js'
import type { SigningKey } from '../signing/key.js'
import type { CourierAnswer, CourierOrder, CourierStart } from './courier-thread.js'
import type { Letter, Post } from './letter.js'

const CODE = new URL('./courier-thread.js', import.meta.url)
/** At one origin. One caller has half of them at most: as many as it may have subscribers told at once. */
const CONNECTIONS = 64

type Sent = { resolve(outcome: SendOutcome): void; reject(error: Error): void }

type CourierOptions = {
  policy: EgressPolicy
  /** Absent: what is to be signed is not sent. */
  key?: SigningKey | undefined
}

export function createCourier({ policy, key }: CourierOptions) {
  const places = createPlaces(CONNECTIONS)
  const underWay = new Map<number, Sent>()
  let inForce = policy
  let thread: Worker | undefined
  let last = 0 // the number of the letter that was sent last
  let isClosed = false

  /** All that are under way: none of them will be answered. */
  function giveUp(outcome: SendOutcome): void {
    for (const { resolve } of underWay.values()) resolve(outcome)
    underWay.clear()
  }

  function start(): Worker {
    const workerData: CourierStart = { policy: inForce, key, connections: CONNECTIONS }
    const started = startThread(CODE, { workerData })
    const ended = (why: string) => {
      if (thread !== started) return
      thread = undefined
      giveUp(failed('unreachable', `the thread that sends has ended${why}`))
    }
    started
      .on('message', ({ number, answer }: CourierAnswer) => {
        const sent = underWay.get(number)
        underWay.delete(number)
        if (underWay.size === 0) started.unref()
        if (typeof answer === 'string') sent?.reject(new Error(answer))
        else sent?.resolve(answer)
      })
      .on('error', ({ message }) => ended(`: ${message}`))
      .on('exit', () => ended(''))
      .unref()
    return started
  }

  const order = (to: Worker, what: CourierOrder) => to.postMessage(what)

  async function handOn(letter: Letter): Promise<SendOutcome> {
    if (isClosed) return failed('aborted', 'this process ends')
    try {
      thread ??= start()
    } catch (error) {
      return failed('unreachable', `no thread can be started: ${(error as Error).message}`)
    }
    last += 1
    const number = last
    order(thread, { letter, number })
    thread.ref() // keeps the process alive until it is answered
    return await new Promise((resolve, reject) => underWay.set(number, { resolve, reject }))
  }

  const post: Post = async (letter, isWanted) => {
    const { caller, url, timeoutMs } = letter
    const end = performance.now() + timeoutMs
    const deadline = createDeadline({ timeoutMs })
    const leave = await places.take(new URL(url).origin, deadline, caller)
    deadline.release()
    if (typeof leave === 'string') return failed(leave, `no place at its origin within ${timeoutMs} ms`)
    try {
      if (isWanted && !(await isWanted())) return failed('aborted', 'nobody wants it sent any more')
      return await handOn({ ...letter, timeoutMs: Math.max(0, end - performance.now()) })
    } finally {
      leave()
    }
  }

  return {
    post,
    /** Letters follow the new policy from now on; those that have a connection end under the old one. */
    reconfigure(next: EgressPolicy): void {
      inForce = next
      if (thread) order(thread, { policy: next })
    },
    /** Ends the thread and what is under way. */
    async close(): Promise<void> {
      isClosed = true
      const ended = thread
      thread = undefined
      giveUp(failed('aborted', 'this process ends'))
      await ended?.terminate()
    },
  }
}
