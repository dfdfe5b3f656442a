/**
 * Servers over TLS, and a process that trusts their authority as an operator's does, by NODE_EXTRA_CA_CERTS: Node reads
 * that at its start only, so the requests are sent by a child (tls-errand.ts). tls/make.sh made the certificates.
 */
import { spawn } from 'node:child_process'
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

/** Sends the requests one after the other from a process that trusts the tests' authority. */
export async function sendTrusting(errand: Errand, environment: Record<string, string> = {}): Promise<Done> {
  const child = spawn(process.execPath, [join(HERE, 'tls-errand.js'), JSON.stringify(errand)], {
    env: { ...process.env, ...TRUSTING, ...environment },
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: LONGEST_MS,
  })
  let out = ''
  for await (const text of child.stdout.setEncoding('utf8')) out += text
  return JSON.parse(out) as Done
}
