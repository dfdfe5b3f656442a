/**
 * A Tributary of its own: a fresh folder, a free port, no anonymous callers. Each transport has its own key, so that what
 * one leaves behind does not meet the other.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { caller } from './wire.js'

const MAIN = fileURLToPath(new URL('../dist/program/main.js', import.meta.url))
const READY_MS = 60_000
const NEVER_THERE = 'signals.fogbank.example'

export const KEYS = { mcp: 'conformance-mcp', a2a: 'conformance-a2a', other: 'conformance-other' }

async function freePort() {
  const probe = createServer()
  await new Promise((resolve) => probe.listen(0, '127.0.0.1', resolve))
  const { port } = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  return port
}

/** JSON is YAML. `more` says which world is federated. */
function configuration(port, folder, more) {
  const keys = Object.entries(KEYS).map(([id, token]) => ({
    id,
    token_sha256: createHash('sha256').update(token).digest('hex'),
    role: 'buyer',
    destinations: [
      { type: 'platform', platform: 'the-trade-desk' },
      { type: 'agent', agent_url: 'https://sales.pinecrest.example/mcp' },
      { type: 'agent', agent_url: 'https://wonderstruck.salesagents.example' },
    ],
  }))
  return {
    listen: { host: '127.0.0.1', port },
    registries: [{ url: 'https://registry.signalcommons.example', refresh: '1m' }],
    callers: { anonymous: 'deny', keys },
    storage: { url: `file:${folder}` },
    ...more,
  }
}

async function untilReady(url, server) {
  const end = Date.now() + READY_MS
  while (Date.now() < end) {
    if (server.exitCode !== null) throw new Error(`Tributary ended with code ${server.exitCode}`)
    const ready = await fetch(`${url}/readyz`).then(
      (reply) => reply.ok,
      () => false, // it does not listen yet
    )
    if (ready) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`Tributary was not ready in ${READY_MS / 1_000} s`)
}

/** Until every agent of the demo world is read, but the one that is never there: what is published first may lack some. */
async function untilWhole(url) {
  const call = caller(url, 'mcp', KEYS.mcp)
  const end = Date.now() + READY_MS
  const page = { discovery_mode: 'wholesale', pagination: { max_results: 1 } }
  while (Date.now() < end) {
    const { incomplete } = await call('get_signals', page).catch(() => ({})) // too busy to answer
    if (incomplete?.every(({ description }) => description.includes(NEVER_THERE))) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  throw new Error(`The demo world was not read in ${READY_MS / 1_000} s`)
}

/** `more`: settings beside listen, registries, callers and storage; by default the demo world is federated. */
export async function startTributary(more = { sandbox: true, preview_releases: ['3.2-beta.5'] }) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-conformance-'))
  const port = await freePort()
  const config = join(folder, 'tributary.json')
  await writeFile(config, JSON.stringify(configuration(port, join(folder, 'data'), more)))
  const server = spawn(process.execPath, [MAIN, 'serve', '--config', config], {
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  const ended = new Promise((resolve) => server.once('exit', resolve))
  const url = `http://127.0.0.1:${port}`

  async function close() {
    server.kill('SIGTERM')
    await ended
    await rm(folder, { recursive: true, force: true })
  }

  try {
    await untilReady(url, server)
    await untilWhole(url)
  } catch (error) {
    await close()
    throw error
  }
  return { url, close }
}
