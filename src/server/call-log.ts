/**
 * The log of calls and requests: one line for each that is refused or fails, with its reason, and one for every
 * thousandth other call. Whoever is refused may come again at once and for ever, so the lines have a bound; those that it
 * left out are counted in the next one.
 */
import type { Logger } from 'pino'
import type { Observed } from './door/dispatcher.js'
import { createRateLimiter } from './door/rate-limit.js'

const LOG_EVERY = 1_000
const BOUND = { perSecond: 10, burst: 100 }

/** A request, or one message of a batch, that came to no task. */
type RefusedRequest = {
  method: string
  /** The pattern of the route: paths and queries can hold secrets. */
  path: string
  status: number
  /** A closed word of ours. */
  reason: string
  address: string
  requestId: string
}

/** The reason of an answer that nobody has given one for. */
const BY_STATUS: Readonly<Record<number, string>> = {
  400: 'invalid_request',
  401: 'no_credentials',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  406: 'not_acceptable',
  409: 'conflict',
  413: 'too_large',
  415: 'unsupported_media_type',
  429: 'rate_limited',
  503: 'unavailable',
}

export function reasonOfStatus(status: number): string {
  return BY_STATUS[status] ?? (status >= 500 ? 'failed' : 'refused')
}

/** Lines of one kind within the bound. */
function createLines(log: Logger, now: () => number) {
  const bound = createRateLimiter(BOUND)
  let leftOut = 0
  return (level: 'info' | 'warn', line: object, message: string): void => {
    if (bound.take('', now()) > 0) {
      leftOut += 1
      return
    }
    log[level](leftOut > 0 ? { ...line, leftOut } : line, message)
    leftOut = 0
  }
}

export function createCallLog(log: Logger, now: () => number) {
  const calls = createLines(log, now)
  const requests = createLines(log, now) // a flood at the door must not hide what callers are refused
  let observed = 0
  return {
    call(call: Observed): void {
      const isRefused = /^[A-Z]/.test(call.outcome)
      if (isRefused) calls(call.outcome === 'SERVICE_UNAVAILABLE' ? 'warn' : 'info', call, 'refused')
      if (observed++ % LOG_EVERY === 0) log.info({ ...call, oneOf: LOG_EVERY }, 'call')
    },
    request(refused: RefusedRequest): void {
      requests(
        refused.status >= 500 || refused.reason === 'failed' ? 'warn' : 'info',
        refused,
        'refused at the door',
      )
    },
  }
}
