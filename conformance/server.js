/**
 * A Tributary of its own: a fresh folder, a port that the system gives, no anonymous callers. Each transport has its own key, so
 * that what one leaves behind does not meet the other.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { caller } from './wire.js'

const MAIN = fileURLToPath(new URL('../dist/program/main.js', import.meta.url))
const READY_MS = 60_000
const NEVER_THERE = 'signals.fogbank.example'

export const KEYS = { mcp: 'conformance-mcp', a2a: 'conformance-a2a', other: 'conformance-other' }

/** JSON is YAML. `more` says which world is federated. */
function configuration(folder, more) {
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
    listen: { host: '127.0.0.1', port: 0 },
    registries: [{ url: 'https://registry.signalcommons.example', refresh: '1m' }],
    callers: { anonymous: 'deny', keys },
    storage: { url: `file:${folder}` },
    ...more,
  }
}

/** Where it serves; it says so once there is a feed. */
async function urlOf(server) {
  const late = setTimeout(() => server.kill(), READY_MS)
  const lines = createInterface({ input: server.stdout })
  try {
    for await (const line of lines) {
      const [, url] = /in one feed at (http:\S+)\/mcp/.exec(line) ?? []
      if (url) return url
    }
  } finally {
    clearTimeout(late)
    server.stdout.resume() // read on, so that it can write on
  }
  throw new Error(`Tributary ended, or served nothing in ${READY_MS / 1_000} s`)
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
  const config = join(folder, 'tributary.json')
  await writeFile(config, JSON.stringify(configuration(join(folder, 'data'), more)))
  const server = spawn(process.execPath, [MAIN, 'serve', '--config', config], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = new Promise((resolve) => server.once('exit', resolve))

  async function close() {
    server.kill('SIGTERM')
    await ended
    await rm(folder, { recursive: true, force: true })
  }

  try {
    const url = await urlOf(server)
    await untilWhole(url)
    return { url, close }
  } catch (error) {
    await close()
    throw error
  }
}
