/**
 * Verifies a signed request or webhook under one of the protocol's profiles of RFC 9421. The checks follow the order of
 * the protocol's verifier checklist, so that every verifier reports a fault with the same code. Cheap checks come
 * before expensive ones, and nothing is stored for a signature that fails. Of one that stands the nonce is kept until the
 * signature expires.
 */
import { timingSafeEqual } from 'node:crypto'
import { bufferOf } from '../adcp/json.js'
import { ALGORITHMS, type Algorithm, type FoundKey, isSignedBy, isUsable, type KeyAnswer } from './key.js'
import {
  bodyDigest,
  CLOCK_SKEW_S,
  codeOf,
  type DigestPolicy,
  type Fault,
  fieldText,
  isWireUrl,
  LONGEST_WINDOW_S,
  type Profile,
  readDigests,
  readSignature,
  readSignatureInput,
  type SignatureInput,
  type SignedMessage,
  signatureBase,
  targetOf,
} from './signature.js'

const MOST_PER_KEY = 100_000
const MOST_PER_OWNER = 200_000 // a key and its successor; how many keys there are is the owner's word
const MOST = 1_000_000
const SHARE = 10_000 // 27 signatures a second
/** How often expired nonces are removed, seconds. */
const SWEEP_S = 10

const REQUIRED_PARAMS = ['created', 'expires', 'nonce', 'keyid', 'alg', 'tag'] as const
const REQUIRED_COMPONENTS = ['@method', '@target-uri', '@authority']
const NONCE = /^[A-Za-z0-9_-]{22,255}$/ // 16 bytes or more
const STRING = /"(?:[^"\\]|\\.)*"/y

/** Whether a nonce was used before; `unknown` when the store of other processes cannot say now. */
type NonceAnswer = 'fresh' | 'used' | 'unknown'

/** Takes a nonce for all processes behind one address. */
export type SharedNonces = (key: string, nonce: string, until: number) => Promise<NonceAnswer>

/** Whose key it is, and which of them. */
type SignerName = { owner: string; keyid: string }

type ReplayOptions = {
  now(): number
  /** Absent when there is no other process. */
  shared?: SharedNonces
  mostPerKey?: number
  mostPerOwner?: number
  most?: number
  /** Nonces that others' cannot displace. */
  share?: number
}

type Used = { count: number; keys: Map<string, Map<string, number>> }

/**
 * Nonces that were used, each kept until its signature expires. Their number is bounded: per key, per owner of keys, and in all.
 * Beyond a bound further signatures are refused: forgetting a nonce would let its signature in again. An owner who has used few
 * always has room, however many others have used. `now` gives ms, all other times are seconds.
 */
export function createReplayGuard(options: ReplayOptions) {
  const { now, shared, mostPerKey = MOST_PER_KEY, mostPerOwner = MOST_PER_OWNER } = options
  const { most = MOST, share = SHARE } = options
  const owners = new Map<string, Used>()
  let count = 0
  let sweptAt = 0

  function sweepOwner(used: Used, seconds: number): void {
    for (const [keyid, nonces] of used.keys) {
      for (const [nonce, until] of nonces) {
        if (until >= seconds) continue
        nonces.delete(nonce)
        used.count -= 1
        count -= 1
      }
      if (nonces.size === 0) used.keys.delete(keyid)
    }
  }

  function sweep(): void {
    const seconds = Math.floor(now() / 1_000)
    if (seconds < sweptAt + SWEEP_S) return
    sweptAt = seconds
    for (const [owner, used] of owners) {
      sweepOwner(used, seconds)
      if (used.count === 0) owners.delete(owner)
    }
  }

  return {
    /** Whether there is room for another nonce of the key. Asked first, because it is cheaper than verifying. */
    hasRoom({ owner, keyid }: SignerName): boolean {
      sweep()
      const used = owners.get(owner)
      if (!used) return true
      const isWithin = used.count < mostPerOwner && (used.keys.get(keyid)?.size ?? 0) < mostPerKey
      return isWithin && (count < most || used.count < share)
    },
    /** Remembers a nonce until its signature expires. */
    async take({ owner, keyid }: SignerName, nonce: string, until: number): Promise<NonceAnswer> {
      const used = owners.get(owner) ?? { count: 0, keys: new Map<string, Map<string, number>>() }
      const nonces = used.keys.get(keyid) ?? new Map<string, number>()
      if (nonces.has(nonce)) return 'used'
      owners.set(owner, used)
      used.keys.set(keyid, nonces)
      nonces.set(nonce, until)
      used.count += 1
      count += 1
      return shared ? await shared(`${owner} ${keyid}`, nonce, until) : 'fresh'
    },
  }
}

export type ReplayGuard = ReturnType<typeof createReplayGuard>

/** Undoes escapes: "\u0061" is "a". */
function spelledOut(quoted: string): string | undefined {
  try {
    return JSON.parse(quoted) as string
  } catch {
    return undefined // a control character or a broken escape: not JSON
  }
}

/**
 * The first name that occurs twice in one object of a JSON text; undefined when there is none or the text is not JSON, which
 * the parser reports. Readers differ in which of the two counts, so a signed body with a duplicate could mean two things under
 * one signature (RFC 8259, section 4).
 */
function repeatedName(body: Uint8Array): string | undefined {
  const text = bufferOf(body).toString()
  const open: (Set<string> | undefined)[] = [] // objects with the names seen in them; arrays without
  let expectsName = false
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at]
    if (sign === '{' || sign === '[') open.push(sign === '{' ? new Set() : undefined)
    else if (sign === '}' || sign === ']') open.pop()
    if (sign === '{' || sign === ',') expectsName = open.at(-1) !== undefined
    if (sign !== '"') continue
    STRING.lastIndex = at
    const [quoted] = STRING.exec(text) ?? []
    if (quoted === undefined) return undefined
    at += quoted.length - 1
    if (!expectsName) continue
    expectsName = false
    const names = open.at(-1)
    const name = spelledOut(quoted)
    if (name === undefined) return undefined
    if (names?.has(name)) return name
    names?.add(name)
  }
  return undefined
}

type VerifierOptions = {
  profile: Profile
  /** The key with this id; when `owner` is given, only among that owner's keys. */
  keyOf(keyid: string, owner?: string): KeyAnswer | Promise<KeyAnswer>
  replay: ReplayGuard
  now(): number
  /** Default `either` for requests; webhooks always cover their body. */
  digest?: DigestPolicy
  /** Revoked keys, where a list is kept. */
  revocation?: { isStale(): boolean; isRevoked(keyid: string, owner: string): boolean }
}

export type Verification =
  | { kind: 'verified'; owner: string; keyid: string }
  | { kind: 'unsigned' }
  /** `code` is the protocol's error code. */
  | { kind: 'rejected'; code: string }

type Params = { created: number; expires: number; nonce: string; keyid: string; alg: Algorithm; tag: string }

function isOneValue(header: string): boolean {
  return !header.includes(',')
}

/** Whether the time lies outside the signature's validity; seconds. */
function isOutside({ created, expires }: Params, nowMs: number): boolean {
  const seconds = nowMs / 1_000
  return (
    expires <= created ||
    expires - created > LONGEST_WINDOW_S ||
    created > seconds + CLOCK_SKEW_S ||
    expires < seconds - CLOCK_SKEW_S
  )
}

function componentFault(
  components: readonly string[],
  hasBody: boolean,
  policy: DigestPolicy,
): Fault | undefined {
  const needed = [
    ...REQUIRED_COMPONENTS,
    ...(hasBody ? ['content-type'] : []),
    ...(policy === 'required' ? ['content-digest'] : []),
  ]
  if (!needed.every((name) => components.includes(name))) return 'signature_components_incomplete'
  const isUnexpected = policy === 'forbidden' && components.includes('content-digest')
  return isUnexpected ? 'signature_components_unexpected' : undefined
}

/** Headers that the signature covers, and that must therefore have only one reading. */
function headersFault({ components }: SignatureInput, { headers }: SignedMessage): Fault | undefined {
  const type = fieldText(headers['content-type'])
  if (components.includes('content-type') && type !== undefined && !isOneValue(type)) {
    return 'signature_header_malformed'
  }
  const digest = fieldText(headers['content-digest'])
  const isMalformed = components.includes('content-digest') && digest !== undefined && !readDigests(digest)
  return isMalformed ? 'signature_header_malformed' : undefined
}

/** Whether there is a digest that we can compute, and every such digest matches the body. */
function digestHolds({ headers, body }: SignedMessage): boolean {
  const digests = readDigests(fieldText(headers['content-digest']) ?? '') ?? new Map<string, Buffer>()
  const known = [...digests].flatMap(([algorithm, said]) => {
    const actual = bodyDigest(algorithm, body)
    return actual ? [actual.length === said.length && timingSafeEqual(actual, said)] : []
  })
  return known.length > 0 && known.every(Boolean)
}

/** A verifier for one profile; a message that is rejected is so with the code that the profile has for the fault. */
export function createVerifier(options: VerifierOptions) {
  const { profile, keyOf, replay, now, revocation } = options
  const policy: DigestPolicy = profile.errors === 'webhook' ? 'required' : (options.digest ?? 'either')

  async function check(message: SignedMessage, owner?: string): Promise<FoundKey | Fault | undefined> {
    const { headers, url, body } = message
    const [inputText, signatureText] = [fieldText(headers['signature-input']), fieldText(headers.signature)]
    if (inputText === undefined && signatureText === undefined) return undefined
    if (inputText === undefined || signatureText === undefined) return 'signature_header_malformed'
    const input = readSignatureInput(inputText)
    const signature = readSignature(signatureText)
    if (!input || !signature || !isWireUrl(url)) return 'signature_header_malformed'
    const headerFault = headersFault(input, message)
    if (headerFault) return headerFault
    const target = targetOf(url)
    if (!target) return 'target_uri_malformed'

    const params = Object.fromEntries(input.params) as Params
    if (REQUIRED_PARAMS.some((name) => params[name] === undefined)) return 'signature_params_incomplete'
    if (!NONCE.test(params.nonce)) return 'signature_header_malformed'
    if (params.tag !== profile.tag) return 'signature_tag_invalid'
    if (!ALGORITHMS.includes(params.alg)) return 'signature_alg_not_allowed'
    if (isOutside(params, now())) return 'signature_window_invalid'
    const coverageFault = componentFault(input.components, body.length > 0, policy)
    if (coverageFault) return coverageFault
    const base = signatureBase(input.components, input.raw, message, target)
    if (base === undefined) return 'signature_components_incomplete'

    const key = await keyOf(params.keyid, owner)
    if (key === 'unavailable') return 'signature_jwks_unavailable'
    if (key === 'unknown') return 'signature_key_unknown'
    if (!isUsable(key.jwk, params.alg, profile.keyUses)) return 'signature_key_purpose_invalid'
    if (revocation?.isStale()) return 'signature_revocation_stale'
    if (revocation?.isRevoked(params.keyid, key.owner)) return 'signature_key_revoked'
    const name = { owner: key.owner, keyid: params.keyid }
    if (!replay.hasRoom(name)) return 'signature_rate_abuse'
    if (!isSignedBy(key.jwk, params.alg, base, signature)) return 'signature_invalid'
    if (input.components.includes('content-digest') && !digestHolds(message)) {
      return 'signature_digest_mismatch'
    }
    const nonce = await replay.take(name, params.nonce, params.expires + CLOCK_SKEW_S)
    if (nonce === 'used') return 'signature_replayed'
    if (nonce === 'unknown') return 'signature_jwks_unavailable' // the one code that means "try again later"
    return repeatedName(body) === undefined ? key : 'body_malformed'
  }

  /** `owner`: whose signature it must be; by default any known key's. */
  return async (message: SignedMessage, owner?: string): Promise<Verification> => {
    const found = await check(message, owner)
    if (found === undefined) return { kind: 'unsigned' }
    if (typeof found === 'string') return { kind: 'rejected', code: codeOf(profile, found) }
    return { kind: 'verified', owner: found.owner, keyid: String(found.jwk.kid) }
  }
}

export type Verifier = ReturnType<typeof createVerifier>
