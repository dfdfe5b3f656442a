/**
 * Signatures of callers' requests (docs/protocol.md#signatures). One that is there must stand, whatever other credential is
 * beside it; what needs one is turned away without it, before anything is done.
 */
import { adcpError } from '../../adcp/error.js'
import type { Admission, Signatures } from './admission.js'
import type { Entered, TurnedAway, Visit } from './door.js'
import { bodyRegistersSecret, calledTasks } from './signed-calls.js'

const UNAUTHENTICATED = -32_001
const REQUIRED = 'request_signature_required'
const NO_BODY = new Uint8Array(0)

export type SignatureGateOptions = {
  byId: Admission['byId']
  /** Who asks, by any other credential. */
  identified(visit: Visit): Entered | TurnedAway | Promise<Entered | TurnedAway>
  /** The url that callers know us by: what they sign. */
  publicUrl: string
  isMutating(task: string): boolean
}

function bodyOf({ body }: Visit): Uint8Array {
  return body instanceof Uint8Array ? body : NO_BODY
}

/** 401 with the protocol's word for what is wrong. */
function refused(code: string): TurnedAway {
  const message =
    code === REQUIRED ? 'This request must be signed' : 'The signature of this request does not stand'
  return {
    ...{ kind: 'turned_away', status: 401, code: UNAUTHENTICATED, message },
    error: adcpError('AUTH_REQUIRED', `${message}: ${code}.`, {
      suggestion: 'Sign the request as RFC 9421 and the request-signing profile of the protocol say.',
    }),
    headers: { 'www-authenticate': `Signature error="${code}"` },
  }
}

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
      body: bodyOf(visit),
    }
    // A bearer beside the signature names whose it must be.
    const verified = await verify(message, known?.caller.id)
    if (verified.kind === 'rejected') return refused(verified.code)
    const caller = verified.kind === 'verified' ? byId(verified.owner) : undefined
    return caller ? { kind: 'caller', caller, bucket: caller.id } : refused(REQUIRED)
  }

  function unsigned(visit: Visit, { mustSign }: Signatures, who: Entered | TurnedAway): Entered | TurnedAway {
    const body = bodyOf(visit)
    const isKnown = who.kind === 'caller' && who.caller.role !== 'anonymous'
    const must = mustSign(isKnown ? who.caller.id : undefined)
    if (must && [...calledTasks(body)].some(isMutating)) return refused(REQUIRED)
    if (who.kind !== 'caller') return who
    if (bodyRegistersSecret(body)) return refused(REQUIRED)
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
