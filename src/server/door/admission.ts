/**
 * Who is let in and how often: callers and rate limits together, replaced as one when the configuration changes.
 * A request that was let in goes on as the caller it was.
 */
import { type Callers, type CallersOptions, createCallers } from './callers.js'
import { createJwtVerifier, type JwtOptions } from './jwt.js'
import { createRateLimiter, type RateLimit, type RateLimiter } from './rate-limit.js'

export type AdmissionOptions = {
  callers: Omit<CallersOptions, 'jwt'>
  jwt?: JwtOptions
  rateLimit?: RateLimit
}

export type Admission = Callers & RateLimiter & { reconfigure(options: AdmissionOptions): void }

function made({ callers, jwt, rateLimit }: AdmissionOptions) {
  return {
    callers: createCallers({ ...callers, ...(jwt && { jwt: createJwtVerifier(jwt) }) }),
    limiter: createRateLimiter(rateLimit),
  }
}

/** Throws, here and in `reconfigure`, when callers or limits contradict themselves; then nothing changes. */
export function createAdmission(options: AdmissionOptions): Admission {
  let current = made(options)
  return {
    identify: (credentials) => current.callers.identify(credentials),
    take: (caller, now) => current.limiter.take(caller, now),
    reconfigure(next) {
      current = made(next)
    },
  }
}
