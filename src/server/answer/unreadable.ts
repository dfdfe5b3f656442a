/**
 * What Node cannot read as a request: text that is no HTTP, heads that are too large, and what does not come to its end in time. Its
 * sender may have asked for other things before on the same connection: those are answered first, and no request is answered twice.
 */
import { type Server, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { type BodyFault, endBody, fault } from './bodies.js'
import { endWith, newestOn, whenOver } from './connection.js'
import { INVALID_MESSAGE, rpcError } from './json-rpc.js'

type ReadingError = Error & { code?: string; reason?: string }

const FAULTS: Readonly<Record<string, BodyFault>> = {
  ERR_HTTP_REQUEST_TIMEOUT: fault(408, 'The request did not come to its end in time: send it faster'),
  HPE_HEADER_OVERFLOW: fault(
    431,
    'The path and the headers of this request are too large: send shorter ones',
  ),
  HPE_INVALID_EOF_STATE: fault(400, 'The connection ended before the request: send all of it'),
}

const NO_PROXY = fault(501, 'This is no proxy: send requests for this server alone')

/** The connection is gone; or something came behind a request that was to be the last. */
const IGNORED: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'HPE_CLOSED_CONNECTION'])

function faultOf({ code = '', reason }: ReadingError): BodyFault {
  const why = reason ? ` (${reason})` : ''
  return FAULTS[code] ?? fault(400, `This is not a request of HTTP/1.1${why}: mend it and connect again`)
}

/** The whole answer to what has no request, and so no response. */
function answerTo({ statusCode, message }: BodyFault): string {
  const body = rpcError('null', INVALID_MESSAGE, message)
  return [
    `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    '',
    body,
  ].join('\r\n')
}

const told = new WeakSet<Socket>()

/** Answers once, after all that was asked before, and ends the connection. */
function refuseRest(socket: Socket, why: BodyFault): void {
  if (!socket.writable || told.has(socket)) return
  told.add(socket)
  const newest = newestOn(socket)
  const isWithin = newest !== undefined && !newest.req.complete
  if (isWithin) endBody(newest.req, why)
  const refuse = () => {
    if (!socket.writable) return
    // What was late may have come meanwhile.
    if (newestOn(socket) === newest) endWith(socket, isWithin ? '' : answerTo(why))
    else told.delete(socket)
  }
  if (newest) whenOver(newest, refuse)
  else refuse()
}

/** Listens to the faults that Node finds in what comes on a connection; it goes on finding some in all that comes behind. */
export function answerUnreadable(error: ReadingError, socket: Socket): void {
  if (!IGNORED.has(error.code)) refuseRest(socket, faultOf(error))
}

/** Where nobody listens, Node cuts a connection on which CONNECT is asked, and the answers before it. Else it lets go of it. */
export function refuseTunnels(server: Server): void {
  server.on('connect', (_request, stream) => {
    const socket = stream as Socket
    socket.on('error', () => {}) // Node listens no more
    refuseRest(socket, NO_PROXY)
  })
}
