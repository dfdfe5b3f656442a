/**
 * Which signal a listing belongs to, and what is made from that (docs/decisions.md#identity, #handles): the handles of the signal, of
 * an offer and of a price, and the key by which the feed is ordered (merge/keys.ts). All are pure functions of the identity: the same
 * on every replica and after every restart.
 */
import { hash } from 'node:crypto'
import { refFromLegacy, type SignalRef } from '../adcp/signal.js'
import { createRecent } from '../process/memory.js'
import { digestWord, type Listing } from '../upstreams/rows/slice.js'
import { KEY_BYTES, WORDS } from './keys.js'

/** `kind` names which rule of docs/decisions.md#identity gave the identity. */
export type Identity =
  | { kind: 'provider'; domain: string; id: string }
  | { kind: 'source'; agentUrl: string; id: string }
  | { kind: 'native'; agentUrl: string; segment: string }

/** Length of a signal's handle: the part before the first dot of offer handles and option ids. */
export const HANDLE_LENGTH = 26

function digest(text: string, characters: number): string {
  return hash('sha256', text, 'base64url').slice(0, characters)
}

/** Millions of signals share few option ids, so each is hashed once. */
const tags = createRecent<string>(20_000)

function tag(text: string): string {
  const known = tags.get(text)
  if (known !== undefined) return known
  const made = digest(text, 10)
  tags.set(text, made)
  return made
}

/** The listing's reference; legacy ids are read as docs/decisions.md#identity says. */
export function listingRef(listing: Pick<Listing, 'signal_ref' | 'signal_id'>): SignalRef | undefined {
  return listing.signal_ref ?? (listing.signal_id && refFromLegacy(listing.signal_id))
}

/** Undefined for product scope, which never enters the wholesale feed. `agentUrl` is canonical. */
export function identityOf(listing: Listing, agentUrl: string): Identity | undefined {
  const ref = listingRef(listing)
  if (!ref) return { kind: 'native', agentUrl, segment: listing.signal_agent_segment_id }
  if (ref.scope === 'data_provider') {
    return { kind: 'provider', domain: ref.data_provider_domain, id: ref.signal_id }
  }
  if (ref.scope === 'signal_source') return { kind: 'source', agentUrl, id: ref.signal_id }
  return undefined
}

/** One string per identity. The separator is a space, which cannot occur in a domain, a canonical url or a local id. */
export function identityKey(identity: Identity): string {
  if (identity.kind === 'provider') return `provider ${identity.domain} ${identity.id}`
  if (identity.kind === 'source') return `source ${identity.agentUrl} ${identity.id}`
  return `native ${identity.agentUrl} ${identity.segment}`
}

/** The handle of an identity's digest, of which the first bytes are enough: base64url. */
const digestHandle = (digest: string) => `sig_${digest.slice(0, HANDLE_LENGTH - 4)}`

/** `signal_agent_segment_id` as we publish it. */
export const signalHandle = (key: string) => digestHandle(hash('sha256', key, 'base64url'))

/** The key of the identity whose handle this is; undefined for a text that is not one of our handles. */
export function handleKey(handle: string): Uint32Array | undefined {
  if (!/^sig_[A-Za-z0-9_-]{22}$/.test(handle)) return undefined
  const bytes = Buffer.from(handle.slice(4), 'base64url')
  const key = new Uint32Array(WORDS)
  for (let word = 0; word < WORDS; word += 1) key[word] = bytes.readUInt32BE(word * 4)
  return key
}

/** The signal's handle within any handle of ours: of a signal, an offer or a pricing option. */
export function signalPart(handle: string): string {
  return handle.slice(0, HANDLE_LENGTH)
}

/**
 * Names one way to buy the signal: an upstream and the segment it sells the signal as (there may be several). So long that
 * nobody finds a segment by which his offer would pass for another's.
 */
export function offerHandle(handle: string, agentUrl: string, segmentId: string): string {
  return `${handle}.${digest(`${agentUrl} ${segmentId}`, 20)}`
}

/**
 * `pricing_option_id` as we publish it: unique in the feed, although many upstreams use one id for all their signals.
 */
export function optionId(offer: string, upstreamOptionId: string): string {
  return `${offer}.${tag(upstreamOptionId)}`
}

const ofHandle = Buffer.alloc(KEY_BYTES + 1)
const wordsOfHandle = new DataView(ofHandle.buffer, ofHandle.byteOffset)

/** The handle of the identity whose key this is; `rest`: what `putIdentity` gave for it. */
export function keyHandle(keys: Uint32Array, at: number, rest: number): string {
  for (let word = 0; word < WORDS; word += 1)
    wordsOfHandle.setUint32(word * 4, keys[at * WORDS + word] as number)
  ofHandle[KEY_BYTES] = rest
  return digestHandle(ofHandle.toString('base64url'))
}

/**
 * The key of an identity's handle (`handleKey`), computed directly from the digest that both begin with. Gives the next byte of
 * the digest: with it the handle is known, without hashing the identity again.
 */
export function putIdentity(keys: Uint32Array, at: number, identity: Identity): number {
  const digest = hash('sha256', identityKey(identity), 'binary')
  for (let word = 0; word < WORDS; word += 1) keys[at * WORDS + word] = digestWord(digest, word * 4)
  return digest.charCodeAt(KEY_BYTES)
}
