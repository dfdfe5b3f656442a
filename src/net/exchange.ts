/**
 * One request and its answer, as undici gives it while it is read: interim answers (RFC 9110, 15.2), the headers, the chunks of
 * the body. When the deadline ends, so does the request.
 */
import type { Dispatcher } from 'undici'
import type { BodyBounds, BodyOutcome, BodyReceiver, Reads } from './body.js'
import type { Deadline } from './clock.js'

// Of one answer: a slow server sends one now and then, but no budget of bytes counts them.
const MOST_INTERIM = 32

type Head = { status: number; headers: Record<string, string> }
type Answer = Head & { read: BodyOutcome }

/** So many interim answers came that the one they announce is not waited for. */
export class OnlyInterim extends Error {}

function flatten(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return flat
}

/** `bodyOf` makes who reads the body. Rejects with undici's error, or an `OnlyInterim`, when there is no answer. */
export function exchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  deadline: Deadline,
  reads: Reads,
  bodyOf: (head: Head, controls: Pick<BodyBounds, 'stop' | 'goOn'>) => BodyReceiver,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let interim = 0
    let body: BodyReceiver | undefined
    let bodyEnds = () => {}
    dispatcher.dispatch(request, {
      onRequestStart(controller) {
        const abort = () => controller.abort(new Error('nobody waits for the answer'))
        if (deadline.why()) abort()
        else void deadline.ended.then(abort)
      },
      onResponseStart(controller, status, received) {
        if (status < 200) {
          interim += 1 // an answer follows
          if (interim > MOST_INTERIM)
            controller.abort(new OnlyInterim(`more than ${MOST_INTERIM} interim answers`))
          return
        }
        bodyEnds = reads.bodyBegins()
        const headers = flatten(received)
        const stop = () => controller.abort(new Error('no more of the answer is wanted'))
        body = bodyOf({ status, headers }, { stop, goOn: () => controller.resume() })
        void body.outcome.then((read) => resolve({ status, headers, read }), reject)
      },
      onResponseData(controller, chunk) {
        if (body?.take(chunk) === false) controller.pause()
      },
      onResponseEnd() {
        bodyEnds()
        body?.end()
      },
      onResponseError(_, error) {
        bodyEnds()
        if (body) body.broke(error.message)
        else reject(error)
      },
    })
  })
}
