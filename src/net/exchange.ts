/**
 * One request and its answer, as undici gives it while it is read: interim answers (RFC 9110, 15.2), the headers, the chunks of
 * the body; or why there is none. When the deadline ends, so does the request.
 */
import type { Dispatcher } from 'undici'
import type { BodyBounds, BodyOutcome, BodyReceiver, Reads } from './body.js'
import type { Deadline } from './clock.js'
import type { Connection } from './connections.js'
import { failed, type SendFailed } from './send.js'

// Of one answer: a slow server sends one now and then, but no budget of bytes counts them.
const MOST_INTERIM = 32

const UNRESOLVABLE = new Set([
  ...['ENOTFOUND', 'EAI_AGAIN', 'ENODATA', 'EAI_NONAME'],
  ...['ETIMEOUT', 'ESERVFAIL', 'EREFUSED'], // of name servers that are asked over sockets
])

const UNKNOWN_AUTHORITY = 'its certificate is signed by an authority that is not trusted here'

/** Its server, or what is between, has closed the connection. */
const CLOSED = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** What the checks behind undici's parser find in a status line or in lengths. */
const CONTRADICTIONS = new Set(['ERR_ASSERTION', 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'])

/** OpenSSL's verdicts on a certificate, by the codes that Node gives them. */
const CERTIFICATE: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  CERT_REVOKED: 'its certificate was revoked',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself',
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
}

type Head = { status: number; headers: Record<string, string> }
type Answer = Head & { read: BodyOutcome }

/** So many interim answers came that the one they announce is not waited for. */
class OnlyInterim extends Error {}

function flatten(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return flat
}

type ExchangeOptions = {
  deadline: Deadline
  reads: Reads
  /** `isNew`: none that was kept. */
  connection(isNew: boolean): Connection
  /** It changes nothing where it goes. */
  isRead: boolean
  /** Decoded bytes of the body. */
  maxBytes: number
  /** Whether the request is still to be written, now that it has a connection. */
  mayBegin(): boolean
  /** Makes who reads the body. */
  bodyOf(head: Head, controls: Pick<BodyBounds, 'stop' | 'goOn'>): BodyReceiver
  /** No connection is used any more, which may be later than there is an answer. */
  over(): void
}

/**
 * Rejects with undici's error, or an `OnlyInterim`, when there is no answer. A server may close a connection that it kept just as a
 * request is on its way: a read of whose answer nothing came is then sent once more, over a new connection. Anything else is not,
 * because it may have had its effect.
 */
export function exchange(
  request: Dispatcher.DispatchOptions,
  { deadline, reads, connection, isRead, maxBytes, mayBegin, bodyOf, over }: ExchangeOptions,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let interim = 0
    let body: BodyReceiver | undefined
    let bodyEnds = () => {}
    let giveUp: Connection['end'] = () => {}

    function attempt(on: Connection, isLast: boolean): void {
      let mayRepeat = false
      giveUp = on.end
      on.dispatch(request, {
        onRequestStart(controller) {
          giveUp = (error) => controller.abort(error)
          mayRepeat = isRead && !isLast && on.isKept()
          if (deadline.why() || !mayBegin()) giveUp(new Error('it is not sent any more'))
        },
        onResponseStarted() {
          mayRepeat = false
        },
        onResponseStart(controller, status, received) {
          if (status < 200) {
            interim += 1 // an answer follows
            if (interim > MOST_INTERIM)
              controller.abort(new OnlyInterim(`more than ${MOST_INTERIM} interim answers`))
            return
          }
          const headers = flatten(received)
          const stop = () => controller.abort(new Error('no more of the answer is wanted'))
          bodyEnds = reads.bodyBegins(maxBytes, () => {
            const message = `far more bytes on the wire than ${maxBytes} need`
            resolve({ status, headers, read: { kind: 'too_large', message } })
            stop()
          })
          body = bodyOf({ status, headers }, { stop, goOn: () => controller.resume() })
          void body.outcome.then((read) => resolve({ status, headers, read }), reject)
        },
        onResponseData(controller, chunk) {
          if (body?.take(chunk) === false) controller.pause()
        },
        onResponseEnd() {
          on.keep()
          over()
          bodyEnds()
          body?.end()
        },
        onResponseError(_, error) {
          on.end(error)
          if (mayRepeat && CLOSED.has((error as NodeJS.ErrnoException).code ?? '')) {
            attempt(connection(true), true)
            return
          }
          over()
          bodyEnds()
          if (body) body.broke(error.message)
          else reject(error)
        },
      })
    }

    attempt(connection(false), false)
    void deadline.ended.then(() => giveUp(new Error('nobody waits for the answer')))
  })
}

/**
 * A failure below HTTP in our words: the code of the resolver, the socket or OpenSSL inside undici's error becomes a reason
 * of the contract and a sentence for the operator. Texts of the upstream are never used: strangers write their certificates.
 */
export function failureOf(error: unknown): SendFailed {
  const { name, code, message, errors } = error as Error & { code?: string; errors?: { code?: string }[] }
  if (error instanceof OnlyInterim) return failed('too_large', message)
  const cause = code ?? errors?.[0]?.code ?? 'unknown cause'
  if (UNRESOLVABLE.has(cause)) return failed('unresolvable', `the name does not resolve (${cause})`)
  if (cause === 'UND_ERR_HEADERS_OVERFLOW') return failed('too_large', 'the header section is too long')
  if (name === 'HTTPParserError' || CONTRADICTIONS.has(cause)) {
    return failed('not_http', 'the answer is not HTTP')
  }
  const certificate = CERTIFICATE[cause]
  if (certificate) return failed('unreachable', `${certificate} (${cause})`)
  if (cause === 'EPROTO' || cause.startsWith('ERR_SSL_')) {
    return failed('unreachable', `it does not speak TLS as we do (${cause})`)
  }
  return failed('unreachable', `${message || 'no connection'} (${cause})`)
}
