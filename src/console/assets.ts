/**
 * The page itself: plain files that a browser loads as they are. No build makes them; what comes from npm packages is
 * served from there. They hold nothing that is not in the published package, so everybody may have them.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

const FOLDER = fileURLToPath(new URL('../../../console/', import.meta.url))
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Modules of packages, by the name that the page imports them under. */
const LIBRARIES: Readonly<Record<string, readonly [from: string, file: string]>> = {
  'preact.js': ['preact', 'preact.mjs'],
  'hooks.js': ['preact/hooks', 'hooks.mjs'],
  'htm.js': ['htm', 'htm.module.js'],
  'uplot.js': ['uplot', 'uPlot.esm.js'],
  'uplot.css': ['uplot', 'uPlot.min.css'],
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

/** Browsers resolve no package names, so the name `preact` in the hooks module becomes the path of its file. */
const withPaths = (text: string) => text.replace(/from\s*(["'])preact\1/g, 'from"./preact.js"')

async function libraries(): Promise<[string, Asset][]> {
  const { resolve } = createRequire(import.meta.url)
  return Promise.all(
    Object.entries(LIBRARIES).map(async ([name, [from, file]]): Promise<[string, Asset]> => {
      const text = await readFile(join(dirname(resolve(from)), file), 'utf8')
      return [`lib/${name}`, asset(name, Buffer.from(withPaths(text)))]
    }),
  )
}

async function own(): Promise<[string, Asset][]> {
  const names = (await readdir(FOLDER, { withFileTypes: true })).filter((entry) => entry.isFile())
  return Promise.all(
    names.map(async ({ name }): Promise<[string, Asset]> => {
      return [name, asset(name, await readFile(join(FOLDER, name)))]
    }),
  )
}

/** Every file of the page by its path below /console/. Throws when one of them is missing. */
export async function readAssets(): Promise<ReadonlyMap<string, Asset>> {
  return new Map([...(await own()), ...(await libraries())])
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
