/**
 * Asks the url that a caller names whether it wants our webhooks (schema core/webhook-challenge): otherwise any caller could
 * have us send to any url. Always signed, whatever later deliveries are authenticated with.
 */
import { hash, randomBytes } from 'node:crypto'
import { isRecord } from '../adcp/json.js'
import type { Send } from '../net/send.js'
import type { Signer } from '../signing/sign.js'

const TIMEOUT_MS = 10_000
const MAX_REPLY_BYTES = 4 * 1_024
const CHALLENGE_BYTES = 32
const NONCE_BYTES = 16
const TRIES = 2 // a connection that broke is tried once more

/** What one proof covers: any other tuple needs a proof of its own. */
export type Claim = {
  accountId: string
  subscriberId: string
  url: string
  eventTypes: readonly string[]
  authentication?: { schemes: readonly string[]; credentials?: string }
}

type ChallengeOptions = {
  send: Send
  signer: Signer
  now(): number
  /** The url of the agent whose key signs. */
  agentUrl(): string
}

function deliveryAuth({ authentication }: Claim) {
  if (!authentication) return { mode: 'rfc9421' }
  const fingerprint = hash('sha256', authentication.credentials ?? '')
  return { mode: authentication.schemes[0], credential_fingerprint: fingerprint }
}

function echoes(body: Uint8Array, challenge: string): boolean {
  try {
    const said: unknown = JSON.parse(Buffer.from(body).toString())
    if (!isRecord(said)) return false
    const given = [said.challenge, said.token].filter((value) => value !== undefined)
    return given.length === 1 && given[0] === challenge
  } catch {
    return false // not JSON: whatever answered does not know what it was asked
  }
}

/** Undefined when the url answered as it must; else what it did instead. */
export function createChallenge({ send, signer, now, agentUrl }: ChallengeOptions) {
  return async (claim: Claim): Promise<string | undefined> => {
    const challenge = randomBytes(CHALLENGE_BYTES).toString('base64url')
    const body = JSON.stringify({
      type: 'webhook.challenge',
      challenge,
      account_id: claim.accountId,
      subscriber_id: claim.subscriberId,
      seller_agent_url: agentUrl(),
      delivery_auth: deliveryAuth(claim),
      event_types: claim.eventTypes,
    })
    for (let tries = 1; ; tries += 1) {
      const nonce = randomBytes(NONCE_BYTES).toString('base64url')
      const outcome = await send({
        ...{ url: claim.url, method: 'POST', headers: signer(claim.url, body, now(), nonce), body },
        ...{ timeoutMs: TIMEOUT_MS, maxBytes: MAX_REPLY_BYTES },
      })
      if (outcome.kind === 'failed') {
        if (outcome.reason === 'unreachable' && tries < TRIES) continue
        return outcome.reason === 'refused'
          ? 'this agent may not send there'
          : `it did not answer (${outcome.reason})`
      }
      const { status } = outcome
      if (status < 200 || status > 299) return `it answered with status ${status}`
      return echoes(outcome.body, challenge) ? undefined : 'it did not give the challenge back'
    }
  }
}

export type Challenge = ReturnType<typeof createChallenge>
