/**
 * The port at which an agent's posts arrive. Whoever does not know the secret at the end of their path is answered at once and
 * counts for nothing, also behind a proxy, where everybody has one address. What others hold is bounded: connections, of which the
 * one that was silent longest ends first, and bytes of bodies that have not come to their end.
 */
import { timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { ReceiverReply, SignedDelivery } from '../events/receiver.js'
import { createFairGrowth } from '../process/fair-bytes.js'
import { createGathering } from '../process/memory.js'

const BODY_BYTES = 1_000_000
const ALL_BYTES = 16 * 1024 * 1024
const MOST_CONNECTIONS = 256
const MESSAGE_MS = 30_000
const LOOK_MS = 5_000
const NOTHING = Buffer.alloc(0)
const NOT_FOUND: ReceiverReply = { status: 404, headers: { connection: 'close' } }

type PortOptions = {
  port: number
  host: string
  /** The last part of the path of each post that is read. */
  secret: string
  receive(delivery: SignedDelivery): Promise<ReceiverReply>
}

function send(response: ServerResponse, { status, headers = {}, body = {} }: ReceiverReply): void {
  response.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** Proxies may have changed what stands before the last part. */
function isSecretPath(url: string, secret: Buffer): boolean {
  const [path = ''] = url.split('?', 1)
  const last = Buffer.from(path.slice(path.lastIndexOf('/') + 1))
  return last.byteLength === secret.byteLength && timingSafeEqual(last, secret)
}

function createBodies() {
  const all = createFairGrowth(() => ALL_BYTES)

  /**
   * The body; undefined when it is larger than an event may be, or all that are on their way are too large: the rest is ignored
   * without closing the connection, so that the answer arrives. Rejects when the sender has gone.
   */
  return (request: IncomingMessage, from: string) =>
    new Promise<Buffer | undefined>((resolve, reject) => {
      const gathering = createGathering()
      const growth = all.begin(from, () => end(undefined))
      let bytes = 0

      function add(chunk: Buffer): void {
        bytes += chunk.byteLength
        if (bytes > BODY_BYTES) {
          end(undefined)
          return
        }
        gathering.add(chunk)
        growth.grew(chunk.byteLength)
      }

      function leave(): void {
        growth.end()
        reject(new Error('the sender has gone'))
      }

      const finish = () => end(Buffer.concat(gathering.chunks()))

      function end(body: Buffer | undefined): void {
        growth.end()
        request.off('data', add).off('end', finish).off('close', leave)
        request.resume()
        resolve(body)
      }

      if (Number(request.headers['content-length']) > BODY_BYTES) end(undefined)
      else request.on('data', add).on('end', finish).on('close', leave)
    })
}

/** Rejects when the port cannot be opened. */
export async function openPort({ port, host, secret, receive }: PortOptions) {
  const known = Buffer.from(secret)
  const bodyOf = createBodies()
  const open = new Set<Socket>() // the one first that was silent longest

  function keep(socket: Socket): void {
    open.delete(socket)
    open.add(socket)
    const [silent] = open
    if (open.size <= MOST_CONNECTIONS || !silent) return
    open.delete(silent)
    silent.destroy()
  }

  async function answer(request: IncomingMessage): Promise<ReceiverReply> {
    if (!isSecretPath(request.url ?? '', known)) return NOT_FOUND
    keep(request.socket)
    const { headersDistinct: headers, socket } = request
    const from = socket.remoteAddress ?? ''
    if (request.method !== 'POST') return { status: 405, headers: { allow: 'POST' } }
    if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) return { status: 415 }
    // Of what is not signed the head says all.
    if (!headers.signature && !headers['signature-input'])
      return await receive({ headers, body: NOTHING, from })
    const body = await bodyOf(request, from)
    return body ? await receive({ headers, body, from }) : { status: 413 }
  }

  const limits = {
    requestTimeout: MESSAGE_MS,
    headersTimeout: MESSAGE_MS,
    connectionsCheckingInterval: LOOK_MS,
  }
  const server = createServer(limits, (request, response) => {
    answer(request).then(
      (reply) => send(response, reply),
      () => response.destroy(), // whoever was sending has gone
    )
  })
  server.on('connection', (socket: Socket) => {
    socket.once('close', () => open.delete(socket))
    keep(socket)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })

  return {
    port: (server.address() as { port: number }).port,
    async close(): Promise<void> {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
