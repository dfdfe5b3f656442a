/**
 * The two signature profiles of the protocol over HTTP Message Signatures (RFC 9421): requests and webhooks. They differ in
 * their tag, in which keys may sign, in the content digest, and in the names of their errors.
 */

/** The two algorithms that the profiles allow (RFC 9421, section 3.3). */
export const ALGORITHMS = ['ed25519', 'ecdsa-p256-sha256'] as const
export type Algorithm = (typeof ALGORITHMS)[number]

/** Seconds. A signature is short-lived, and clocks may disagree a little. */
export const LONGEST_WINDOW_S = 300
export const CLOCK_SKEW_S = 60

/** Signatures of other labels are other people's, such as a relay's: they are neither verified nor counted. */
export const LABEL = 'sig1'

/** Whether the body's digest must be among what is signed. */
export type DigestPolicy = 'required' | 'forbidden' | 'either'

export type Profile = {
  tag: string
  /** What a key may say of itself (`adcp_use`) to be used here. */
  keyUses: readonly string[]
  /** Errors are this and an ending. */
  errors: 'request' | 'webhook'
}

export const REQUESTS: Profile = {
  tag: 'adcp/request-signing/v1',
  keyUses: ['request-signing'],
  errors: 'request',
}

/** Webhooks are signed with the key for requests; the older purpose of their own is still taken. */
export const WEBHOOKS: Profile = {
  tag: 'adcp/webhook-signing/v1',
  keyUses: ['request-signing', 'webhook-signing'],
  errors: 'webhook',
}

/** Why a signature does not stand. The first that holds, in this order, is the one that is told. */
export type Fault =
  | 'signature_required'
  | 'target_uri_malformed'
  | 'signature_header_malformed'
  | 'signature_params_incomplete'
  | 'signature_tag_invalid'
  | 'signature_alg_not_allowed'
  | 'signature_window_invalid'
  | 'signature_components_incomplete'
  | 'signature_components_unexpected'
  | 'signature_jwks_unavailable'
  | 'signature_key_unknown'
  | 'signature_key_purpose_invalid'
  | 'signature_revocation_stale'
  | 'signature_key_revoked'
  | 'signature_rate_abuse'
  | 'signature_invalid'
  | 'signature_digest_mismatch'
  | 'signature_replayed'
  | 'body_malformed'

/** The protocol's word for a fault: `request_signature_invalid`, `webhook_body_malformed`. */
export function codeOf({ errors }: Profile, fault: Fault): string {
  return `${errors}_${fault}`
}
