import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'tap'
import { MAIN } from '../support/program.js'

const FILES = 700 // a start opens some hundreds of modules at once
const CONNECTIONS = 900

const CONFIG = `
listen: { host: 127.0.0.1, port: 0 }
callers: { anonymous: metadata }
storage: { url: "file:./data" }
log: { level: debug }
`
const INITIALIZE = JSON.stringify({
  ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
  params: {
    ...{ protocolVersion: '2025-06-18', capabilities: {} },
    clientInfo: { name: 'stranger', version: '1' },
  },
})

function initialize(url: string, agent: Agent): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const accept = 'application/json, text/event-stream'
    const headers = { 'content-type': 'application/json', accept }
    const asked = request(`${url}/mcp`, { method: 'POST', agent, headers }, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode))
    })
    asked.once('error', reject).end(INITIALIZE)
  })
}

test('a stranger who takes all connections cannot keep a server from answering initialize', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-files-'))
  await writeFile(join(folder, 'tributary.yaml'), CONFIG)
  const { NODE_OPTIONS: _, ...env } = process.env // hooks of the test runner
  const start = `ulimit -n ${FILES}; exec ${process.execPath} ${MAIN} serve --config tributary.yaml`
  const server = spawn('sh', ['-c', start], { cwd: folder, env })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const taken: Socket[] = []
  t.teardown(async () => {
    agent.destroy()
    for (const socket of taken) socket.destroy()
    if (server.exitCode === null && server.kill('SIGTERM')) await once(server, 'exit')
    await rm(folder, { recursive: true, force: true })
  })
  const said = async (stream: NodeJS.ReadableStream, what: RegExp) => {
    for await (const line of createInterface({ input: stream })) {
      const found = what.exec(line)
      if (found) return found[0]
    }
    return t.fail(`the server ended without ${what}`)
  }
  const [url] = await Promise.all([
    said(server.stdout, /http:\/\/127\.0\.0\.1:\d+/),
    said(server.stderr, /the code of rare questions is loaded/),
  ])
  server.stdout.resume()
  server.stderr.resume()

  const { port } = new URL(String(url))
  const health = await new Promise((resolve) => {
    request(`${url}/healthz`, { agent }, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode))
    }).end()
  })
  t.equal(health, 200, 'a connection is there before all are taken')
  for (let count = 0; count < CONNECTIONS; count += 1) {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
    taken.push(socket)
    await once(socket, 'connect')
  }
  t.equal(await initialize(String(url), agent), 200)
})
