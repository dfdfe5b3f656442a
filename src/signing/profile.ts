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

/** Signatures with other labels belong to others, such as a relay: they are neither verified nor counted. */
export const LABEL = 'sig1'

/** Whether the signature must cover the digest of the body. */
export type DigestPolicy = 'required' | 'forbidden' | 'either'

export type Profile = {
  tag: string
  /** The purposes (`adcp_use`) that a key may have to be used here. */
  keyUses: readonly string[]
  /** The beginning of its error codes; the fault is the ending. */
  errors: 'request' | 'webhook'
}

export const REQUESTS: Profile = {
  tag: 'adcp/request-signing/v1',
  keyUses: ['request-signing'],
  errors: 'request',
}

/** Webhooks are signed with the key for requests; keys of the older purpose for webhooks are still accepted. */
export const WEBHOOKS: Profile = {
  tag: 'adcp/webhook-signing/v1',
  keyUses: ['request-signing', 'webhook-signing'],
  errors: 'webhook',
}

/** Why a signature is refused, in the order of the checks: the first fault found is the one that is reported. */
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
