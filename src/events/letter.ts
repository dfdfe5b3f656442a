/**
 * A request to a place that a caller named: to its webhook, or to ask whether it wants events. It is plain data, so that a thread
 * of its own can sign and send it (courier.ts).
 */
import { randomBytes } from 'node:crypto'
import type { Outbound, Send, SendOutcome } from '../net/send.js'
import type { Signer } from '../signing/signature.js'

const NONCE_BYTES = 16

export type Letter = Pick<Outbound, 'url' | 'headers' | 'timeoutMs' | 'maxBytes'> & {
  /** Who named the place. */
  readonly caller: string
  readonly body: string
  /** When it is signed, ms since the epoch; absent: it is sent without a signature. */
  readonly signedAt?: number
  /** Nothing of the answer's body is needed, so none of it is waited for. */
  readonly isHeadEnough?: boolean
}

/**
 * Sends one letter. Rejects where it is to be signed and there is no key. `isWanted` is asked once there is a place for it at its
 * origin: where the answer is no, it is not sent, and has failed as `aborted`.
 */
export type Post = (letter: Letter, isWanted?: () => Promise<boolean>) => Promise<SendOutcome>

/** Sends by `send` at once, and signs by `signer` (RFC 9421). */
export function createPost({ send, signer }: { send: Send; signer?: Signer | undefined }) {
  function signed({ url, body, signedAt }: Letter): Record<string, string> {
    if (signedAt === undefined) return {}
    if (!signer) throw new Error('webhook: accepted without authentication and without a signing key')
    return signer(url, body, signedAt, randomBytes(NONCE_BYTES).toString('base64url'))
  }

  return async (letter: Letter): Promise<SendOutcome> => {
    const { url, headers, body, timeoutMs, maxBytes, isHeadEnough } = letter
    return await send({
      ...{ url, method: 'POST', headers: { ...signed(letter), ...headers }, body },
      ...{ timeoutMs, maxBytes },
      ...(isHeadEnough && { enough: () => () => true }),
    })
  }
}
