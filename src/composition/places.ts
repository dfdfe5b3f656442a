/**
 * What a server opens that no upstream gives: its storage, the key sets of its callers, the routes of `egress.hosts`, the
 * address where it listens. Each is tried once, and nothing is changed by it (`tributary check`).
 */
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { dirname } from 'node:path'
import { sql } from 'kysely'
import { shownUrl } from '../adcp/redaction.js'
import { originAt } from '../adcp/url.js'
import type { Config } from '../config/values.js'
import type { Send } from '../net/send.js'
import { openPostgres } from '../store/database/postgres.js'
import { databaseFile, openSqlite, storageFolder } from '../store/database/sqlite.js'

const KEY_SET_BYTES = 256 * 1024
const LOOK_MS = 10_000
const PRIVILEGED = 1_024 // ports below it are not for every user

export type PlaceLook = {
  what: 'storage' | 'key set' | 'route' | 'address'
  place: string
  problem?: string
  /** Worth knowing, and no fault. */
  note?: string
}

const reasonOf = (error: unknown) => (error as NodeJS.ErrnoException).code ?? (error as Error).message

/** The folder that is there already, of a path that may not be: what is missing is made at the start. */
async function nearestThere(path: string): Promise<string> {
  const isThere = await stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  )
  return isThere || dirname(path) === path ? path : await nearestThere(dirname(path))
}

/** Reads the newest rows for damage, as a server does after a crash; a running server is not disturbed. */
async function lookAtFile(file: string): Promise<string | undefined> {
  const size = await stat(file).then(
    (found) => found.size,
    () => 0, // the start makes it
  )
  if (size === 0) return undefined
  try {
    const db = await openSqlite(file, { check: true, onProblem: () => {} })
    await db.destroy()
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

async function lookAtFolder(folder: string): Promise<string | undefined> {
  const there = await nearestThere(folder)
  try {
    if (!(await stat(there)).isDirectory()) return `${there} is no folder`
    await access(there, constants.W_OK | constants.X_OK)
  } catch (error) {
    return `${there} cannot be written (${reasonOf(error)})`
  }
  return await lookAtFile(databaseFile(folder))
}

async function lookAtDatabase(url: string): Promise<string | undefined> {
  const db = openPostgres({ url, connections: 1, statementMs: LOOK_MS, onProblem: () => {} })
  try {
    await sql`select 1`.execute(db)
    return undefined
  } catch (error) {
    // The codes of PostgreSQL are numbers; only where several addresses were tried is there no message.
    return `the database cannot be reached (${(error as Error).message || reasonOf(error)})`
  } finally {
    await db.destroy()
  }
}

async function lookAtStorage({ storage: { url } }: Config): Promise<PlaceLook> {
  const folder = storageFolder(url)
  const problem = await (folder === undefined ? lookAtDatabase(url) : lookAtFolder(folder))
  return { what: 'storage', place: folder ?? shownUrl(url), ...(problem && { problem }) }
}

function hasKeys(body: Uint8Array): boolean {
  try {
    const { keys } = JSON.parse(Buffer.from(body).toString()) as { keys?: unknown }
    return Array.isArray(keys) && keys.length > 0
  } catch {
    return false // a page that is no JSON is no key set
  }
}

async function lookAtKeys(url: string, send: Send): Promise<PlaceLook> {
  const request = {
    url,
    headers: { accept: 'application/json' },
    timeoutMs: LOOK_MS,
    maxBytes: KEY_SET_BYTES,
  }
  const reply = await send(request)
  const place = shownUrl(url)
  if (reply.kind === 'failed')
    return { what: 'key set', place, problem: `it does not answer (${reply.reason})` }
  if (reply.status !== 200) return { what: 'key set', place, problem: `it answers HTTP ${reply.status}` }
  return { what: 'key set', place, ...(!hasKeys(reply.body) && { problem: 'it holds no keys' }) }
}

async function lookAtRoute(domain: string, origin: string, send: Send): Promise<PlaceLook> {
  const reply = await send({ url: `https://${domain}/`, timeoutMs: LOOK_MS, maxBytes: KEY_SET_BYTES })
  const isDown = reply.kind === 'failed' && reply.reason === 'unreachable'
  const place = `${domain} at ${shownUrl(origin)}`
  return { what: 'route', place, ...(isDown && { problem: 'nothing listens there' }) }
}

/** Whether a connection is taken there. */
function isTaken(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: LOOK_MS })
    const end = (taken: boolean) => {
      socket.destroy()
      resolve(taken)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
  })
}

/** Whether what listens there is a server like this one. */
async function isTributary(host: string, port: number): Promise<boolean> {
  try {
    const answer = await fetch(`${originAt(host, port)}/healthz`, { signal: AbortSignal.timeout(LOOK_MS) })
    return answer.ok && ((await answer.json()) as { status?: unknown } | null)?.status === 'ok'
  } catch {
    return false // another program's words, or none
  }
}

/** Why the system does not let this process listen; undefined when it does. */
function whyNotListen(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error) => resolve(`it cannot be listened on (${reasonOf(error)})`))
    server.listen(port, host, () => server.close(() => resolve(undefined)))
  })
}

/** A free port is not taken, unless it is privileged: a server that starts meanwhile finds it free. */
async function lookAtAddress({ listen: { host, port } }: Config): Promise<PlaceLook> {
  const place = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
  const away = await whyNotListen(host, 0)
  if (away) return { what: 'address', place, problem: away }
  const near = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  if (port !== 0 && (await isTaken(near, port))) {
    if (await isTributary(near, port))
      return { what: 'address', place, note: 'a server of Tributary listens there already' }
    return { what: 'address', place, problem: 'another program listens there; choose another listen.port' }
  }
  const problem = port < PRIVILEGED ? await whyNotListen(host, port) : undefined
  return { what: 'address', place, ...(problem && { problem }) }
}

/** Never rejects: what cannot be opened has its `problem`. */
export async function lookAtPlaces(config: Config, send: Send): Promise<PlaceLook[]> {
  const { callers, egress } = config
  const sets = callers.keys.flatMap(({ signing }) =>
    signing && 'url' in signing.source ? signing.source.url : [],
  )
  const urls = new Set([...(callers.jwt ? [callers.jwt.jwksUrl] : []), ...sets])
  return await Promise.all([
    lookAtStorage(config),
    lookAtAddress(config),
    ...[...urls].map((url) => lookAtKeys(url, send)),
    ...Object.entries(egress.hosts ?? {}).map(([domain, origin]) => lookAtRoute(domain, origin, send)),
  ])
}
