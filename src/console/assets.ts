/**
 * The page itself: plain files that a browser loads as they are. No build makes them; what comes from npm packages lies
 * in the program. They hold nothing that is not in the published package, so everybody may have them.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

const FOLDER = fileURLToPath(new URL('../../../console/', import.meta.url))
/** What the page uses of npm packages; `bundle.js` puts it there. */
const LIBRARIES = fileURLToPath(new URL('../../program/libraries/', import.meta.url))
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Nothing from another host, no code or style inside the document, no frame around it. */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

type Asset = { type: string; etag: string; body: Buffer; packed: Buffer }

function asset(name: string, body: Buffer): Asset {
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  return { type: TYPES[extname(name)] ?? 'application/octet-stream', etag, body, packed: gzipSync(body) }
}

async function filesOf(folder: string, below = ''): Promise<[string, Asset][]> {
  const names = (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isFile())
  return Promise.all(
    names.map(async ({ name }): Promise<[string, Asset]> => {
      return [`${below}${name}`, asset(name, await readFile(join(folder, name)))]
    }),
  )
}

/** Every file of the page by its path below /console/. Throws when one of them is missing. */
export async function readAssets(): Promise<ReadonlyMap<string, Asset>> {
  return new Map([...(await filesOf(FOLDER)), ...(await filesOf(LIBRARIES, 'lib/'))])
}

function send(request: FastifyRequest, reply: FastifyReply, { type, etag, body, packed }: Asset) {
  reply.headers({
    ...HEADERS,
    etag,
    'content-type': type,
    'cache-control': 'no-cache',
    vary: 'accept-encoding',
  })
  if (request.headers['if-none-match'] === etag) return reply.code(304).send()
  const takesGzip = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')
  return takesGzip ? reply.header('content-encoding', 'gzip').send(packed) : reply.send(body)
}

/** Serves the files of the page below `/console/`, and the page itself at `/`. */
export function addAssets(app: FastifyInstance, assets: ReadonlyMap<string, Asset>): void {
  const page = assets.get('index.html') as Asset
  app.get('/', (request, reply) => send(request, reply, page))
  app.get<{ Params: { '*': string } }>('/console/*', (request, reply) => {
    const found = assets.get(request.params['*'])
    return found ? send(request, reply, found) : reply.callNotFound()
  })
}
