/**
 * Signs our requests to an agent that asks for it, over either transport: the operations that its capabilities name
 * (`request_signing`). All other requests are sent unsigned.
 */
import { randomBytes } from 'node:crypto'
import { isRecord } from '../adcp/json.js'
import type { Send } from '../net/send.js'
import type { Signer } from './sign.js'

/** What an agent wants to be signed. */
export type SigningWish = {
  operations: readonly string[]
  /** Whether the signature may cover the digest of the body; true unless the agent forbids it. */
  digest: boolean
  /** The agent speaks 3.2, where signatures are standard base64. */
  padded: boolean
}

type SignedSendOptions = {
  send: Send
  sign: Signer
  /** What the agent wants, by what is known of it at present. */
  wish(): SigningWish | undefined
  now(): number
}

const NONCE_BYTES = 16

/** The operation that a JSON-RPC message calls; undefined when it calls none. */
function operationOf(body: string): string | undefined {
  const { method, params } = JSON.parse(body) as { method?: unknown; params?: unknown }
  if (!isRecord(params)) return undefined
  if (method === 'tools/call') return typeof params.name === 'string' ? params.name : undefined
  const parts = isRecord(params.message) ? params.message.parts : undefined
  for (const part of Array.isArray(parts) ? parts : []) {
    if (isRecord(part) && isRecord(part.data) && typeof part.data.skill === 'string') return part.data.skill
  }
  return undefined
}

export function createSignedSend({ send, sign, wish, now }: SignedSendOptions): Send {
  return (request) => {
    const wanted = wish()
    const { url, method, body, headers } = request
    if (!wanted || method !== 'POST' || typeof body !== 'string') return send(request)
    const operation = operationOf(body)
    if (operation === undefined || !wanted.operations.includes(operation)) return send(request)
    const nonce = randomBytes(NONCE_BYTES).toString('base64url')
    return send({ ...request, headers: { ...headers, ...sign(url, body, now(), nonce, wanted) } })
  }
}
