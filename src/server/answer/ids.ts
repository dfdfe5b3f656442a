/** The ids that this server creates: for conversations and for requests. */
import { hash, randomBytes } from 'node:crypto'
import { createRecent } from '../../memory/recent.js'

const MAX_CONTEXTS = 10_000

/** One conversation a caller, under a name that only this process can make: nothing is remembered under it. */
export function createContextIds(): (bucket: string) => string {
  const secret = randomBytes(16).toString('base64url')
  const known = createRecent<string>(MAX_CONTEXTS)
  return (bucket) => {
    const found = known.get(bucket)
    if (found !== undefined) return found
    const made = `ctx_${hash('sha256', `${secret} ${bucket}`, 'base64url').slice(0, 22)}`
    known.set(bucket, made)
    return made
  }
}

/** A caller's own request id when it is harmless in a log line, else one of ours. */
export function createRequestIds(): (request: { headers: Record<string, unknown> }) => string {
  const prefix = randomBytes(6).toString('base64url')
  let count = 0
  return ({ headers }) => {
    const given = headers['x-request-id']
    return typeof given === 'string' && /^[\w.:-]{1,64}$/.test(given) ? given : `${prefix}-${++count}`
  }
}
