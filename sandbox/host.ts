/**
 * One domain of the demo world: an HTTP server on a loopback port that can be stopped, come back and be slow, so that
 * tests see what a client makes of it.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const MAX_BODY = 4 * 1024 * 1024

export type Exchange = { request: IncomingMessage; response: ServerResponse; url: URL }
export type Handler = (exchange: Exchange) => void | Promise<void>

export type Host = {
  origin: string
  /** Requests since the start. */
  requests(): number
  /** Cuts every connection from now on, open ones too. */
  stop(): void
  /** Answers again. */
  restart(): void
  /** Waits so long before it handles a request, ms; 0 ends it. */
  delay(ms: number): void
  close(): Promise<void>
}

/** The whole body as text. Rejects a body above 4 MB. */
export async function readText(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request) {
    bytes += (part as Buffer).byteLength
    if (bytes > MAX_BODY) throw new Error('request body above 4 MB')
    parts.push(part as Buffer)
  }
  return Buffer.concat(parts).toString('utf8')
}

/** Answers with a JSON body. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers })
  response.end(JSON.stringify(body))
}

/** Listens on a free loopback port. */
export async function openHost(handle: Handler): Promise<Host> {
  let waits = 0
  let count = 0
  const timers = new Set<NodeJS.Timeout>()

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await handle({ request, response, url: new URL(request.url ?? '/', 'http://sandbox.invalid') })
    } catch (error) {
      if (!response.headersSent) sendJson(response, 500, { error: String(error) })
      else response.destroy()
    }
  }

  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    count += 1
    if (waits === 0) {
      void answer(request, response)
      return
    }
    const timer = setTimeout(() => {
      timers.delete(timer)
      void answer(request, response)
    }, waits)
    timers.add(timer)
  })

  // A stopped host keeps its port, which the system would give to whoever asks next.
  let isStopped = false
  server.on('connection', (socket) => {
    if (isStopped) socket.resetAndDestroy()
  })

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      server.off('error', reject)
      resolve()
    })
  })
  const { port } = server.address() as AddressInfo

  function stop(): void {
    isStopped = true
    for (const timer of timers) clearTimeout(timer)
    timers.clear()
    server.closeAllConnections()
  }

  return {
    origin: `http://127.0.0.1:${port}`,
    requests: () => count,
    stop,
    restart() {
      isStopped = false
    },
    delay(ms) {
      waits = ms
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        stop()
      }),
  }
}
