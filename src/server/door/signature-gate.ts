/**
 * Signatures of callers' requests (docs/protocol.md#signatures). A signature that is sent must be valid, whatever other
 * credential comes with it. A request that needs one is refused without it before anything is done.
 */
import { adcpError } from '../../adcp/answer.js'
import { bufferOf } from '../../adcp/json.js'
import { bodyBytes } from '../answer/exchange.js'
import {
  type Admission,
  type Entered,
  type Signatures,
  type TurnedAway,
  turnedAway,
  type Visit,
} from './admission.js'

/** The method whose params name a task of ours. */
const CALLS_TOOL = 'tools/call'
const PUSH_SETTINGS = ['push_notification_config', 'notification_configs'] as const
export const UNAUTHENTICATED = -32_001
const REQUIRED = 'request_signature_required'

type SignatureGateOptions = {
  byId: Admission['byId']
  /** Who asks, by any other credential. */
  identified(visit: Visit): Entered | TurnedAway | Promise<Entered | TurnedAway>
  /** The url that callers know us by: what they sign. */
  publicUrl: string
  isMutating(task: string): boolean
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** Every object and list inside a value, itself included. */
function* within(value: unknown): Generator<Record<string, unknown>> {
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (!isObject(next)) continue
    yield next
    for (const held of Object.values(next)) open.push(held) // spreading a long list would overflow the stack
  }
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString())
  } catch {
    return undefined // no JSON: the transport says so
  }
}

/** The tasks that a body of either transport calls, by the names in it. */
function calledTasks(body: Uint8Array): ReadonlySet<string> {
  const found = new Set<string>()
  for (const { method, params, skill } of within(parsed(body))) {
    if (method === CALLS_TOOL && isObject(params) && typeof params.name === 'string') found.add(params.name)
    if (typeof skill === 'string') found.add(skill)
  }
  return found
}

/**
 * Whether a value contains a shared secret for webhooks: somebody who can change the request could insert another one.
 */
export function registersSecret(value: unknown): boolean {
  for (const object of within(value)) {
    for (const name of PUSH_SETTINGS) {
      const settings = object[name]
      const entries = Array.isArray(settings) ? settings : [settings]
      if (
        entries.some(
          (entry) => isObject(entry) && entry.authentication !== undefined && entry.authentication !== null,
        )
      ) {
        return true
      }
    }
  }
  return false
}

/** The same of a request body. */
function bodyRegistersSecret(body: Uint8Array): boolean {
  const bytes = bufferOf(body)
  // A name may be written with escapes; without any, searching the bytes is faster than parsing.
  return (bytes.includes('authentication') || bytes.includes('\\u')) && registersSecret(parsed(body))
}

/** 401 with the protocol's word for what is wrong. */
function refused(code: string): TurnedAway {
  const message =
    code === REQUIRED ? 'This request must be signed' : 'The signature of this request does not stand'
  return {
    ...turnedAway(401, UNAUTHENTICATED, message, 'signature'),
    error: adcpError('AUTH_REQUIRED', `${message}: ${code}.`, {
      suggestion: 'Sign the request as RFC 9421 and the request-signing profile of the protocol say.',
    }),
    headers: { 'www-authenticate': `Signature error="${code}"` },
  }
}

/** For what changes something and is asked by a caller that must sign. */
export const SIGNATURE_REQUIRED = refused(REQUIRED)

export function createSignatureGate({ byId, identified, publicUrl, isMutating }: SignatureGateOptions) {
  const base = publicUrl.replace(/\/$/, '')

  async function signed(
    visit: Visit,
    { verify }: Signatures,
    known: Entered | TurnedAway | undefined,
  ): Promise<Entered | TurnedAway> {
    if (known && known.kind !== 'caller') return known
    const message = {
      method: visit.raw.method ?? '',
      url: base + visit.raw.url,
      headers: visit.raw.headersDistinct,
      body: bodyBytes(visit),
    }
    // A bearer token in the same request says whose signature it must be.
    const verified = await verify(message, known?.caller.id)
    if (verified.kind === 'rejected') return refused(verified.code)
    const caller = verified.kind === 'verified' ? byId(verified.owner) : undefined
    return caller ? { kind: 'caller', caller, bucket: caller.id } : SIGNATURE_REQUIRED
  }

  function unsigned(visit: Visit, { mustSign }: Signatures, who: Entered | TurnedAway): Entered | TurnedAway {
    const body = bodyBytes(visit)
    const isKnown = who.kind === 'caller' && who.caller.role !== 'anonymous'
    const must = mustSign(isKnown ? who.caller.id : undefined)
    if (must && [...calledTasks(body)].some(isMutating)) return SIGNATURE_REQUIRED
    if (who.kind !== 'caller') return who
    if (bodyRegistersSecret(body)) return SIGNATURE_REQUIRED
    return { ...who, signature: must ? 'required' : 'missing' }
  }

  return (visit: Visit, signatures: Signatures): Entered | TurnedAway | Promise<Entered | TurnedAway> => {
    const { headers } = visit.raw
    const isSigned = headers.signature !== undefined || headers['signature-input'] !== undefined
    if (isSigned) {
      const hasBearer = headers.authorization !== undefined || headers['x-adcp-auth'] !== undefined
      const known = hasBearer ? identified(visit) : undefined
      return Promise.resolve(known).then((settled) => signed(visit, signatures, settled))
    }
    const who = identified(visit)
    return who instanceof Promise
      ? who.then((settled) => unsigned(visit, signatures, settled))
      : unsigned(visit, signatures, who)
  }
}
