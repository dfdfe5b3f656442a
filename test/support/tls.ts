/**
 * Servers over TLS, and a process that trusts their authority as an operator's does, by NODE_EXTRA_CA_CERTS: Node reads
 * that at its start only, so the requests are sent by a child (tls-errand.ts). tls/make.sh made the certificates.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import type { SendOutcome } from '../../src/net/send.js'
import type { Errand } from './tls-errand.js'
import type { RunningAgent } from './upstream-agent.js'

const HERE = dirname(fileURLToPath(import.meta.url))
const FOLDER = resolve(HERE, '../../../test/support/tls')
const LONGEST_MS = 120_000

export type Certificate = 'good' | 'other-name' | 'expired' | 'not-yet-valid' | 'untrusted'

/** What makes a process trust the servers. */
export const TRUSTING = { NODE_EXTRA_CA_CERTS: join(FOLDER, 'trusted-ca.pem') }

const read = (name: string) => readFileSync(join(FOLDER, name))

type Test = { teardown(task: () => unknown): void }

/** An https server on loopback, closed with the test; it remembers the name that each connection asked for. */
export async function startHttps(
  t: Test,
  certificate: Certificate,
  handler: RequestListener,
): Promise<RunningAgent & { port: number; names: (string | false | null)[] }> {
  const names: (string | false | null)[] = []
  const server = createServer({ key: read('server.key'), cert: read(`${certificate}.pem`) }, handler)
  server.on('secureConnection', (socket: TLSSocket & { servername?: string | false | null }) => {
    names.push(socket.servername ?? null)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const { port } = server.address() as AddressInfo
  const close = () =>
    new Promise<void>((closed) => {
      server.close(() => closed())
      server.closeAllConnections()
    })
  t.teardown(close)
  const origin = `https://localhost:${port}`
  return { origin, url: `${origin}/mcp`, port, names, close }
}

export type Done = {
  /** In the order of the requests. */
  outcomes: (SendOutcome & { text?: string })[]
  /** How often each name was resolved. */
  asked: Record<string, number>
}

/**
 * Starts a process that trusts the tests' authority. What it gives sends the requests of one errand, one after the other;
 * errands wait for each other.
 */
export function startTrusting(
  t: Test,
  environment: Record<string, string> = {},
): (errand: Errand) => Promise<Done> {
  const child = fork(join(HERE, 'tls-errand.js'), {
    env: { ...process.env, ...TRUSTING, ...environment },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    timeout: LONGEST_MS,
  })
  const exited = once(child, 'exit')
  t.teardown(() => {
    child.kill()
    return exited
  })
  const ended = exited.then(([code]) => {
    throw new Error(`the process ended with ${code}`)
  })
  ended.catch(() => {}) // told to whoever waits for an answer
  return async (errand) => {
    const replied = once(child, 'message')
    child.send(errand)
    const [done] = await Promise.race([replied, ended])
    return done as Done
  }
}
