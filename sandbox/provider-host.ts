/**
 * One domain that publishes an adagents.json file: conditional requests by ETag, and a file that tests may replace.
 * The bytes are made at the first request and kept: at most the 5 or 20 MB that such a file may have
 * (docs/protocol.md#provider-files).
 */
import { hash } from 'node:crypto'
import type { Handler } from './host.js'
import type { ProviderFile } from './provider-files.js'

/** What stands at the path: a file, text that need not be one, or nothing (404). */
export type Published = ProviderFile | string | undefined

export type ProviderSite = {
  handle: Handler
  /** The file as it stands. */
  current(): Published
  publish(file: Published): void
}

/** Serves what `make` gives at `path`, until something else is published. */
export function createProviderSite(path: string, make: () => Published): ProviderSite {
  let file: { content: Published } | undefined
  let bytes: Buffer | undefined

  function current(): Published {
    file ??= { content: make() }
    return file.content
  }

  return {
    current,
    publish(content) {
      file = { content }
      bytes = undefined
    },
    handle({ request, response, url }) {
      const content = url.pathname === path ? current() : undefined
      if (content === undefined) {
        response.writeHead(404).end()
        return
      }
      bytes ??= Buffer.from(typeof content === 'string' ? content : JSON.stringify(content))
      const etag = `"${hash('sha256', bytes, 'base64url').slice(0, 27)}"`
      if (request.headers['if-none-match'] === etag) {
        response.writeHead(304, { etag }).end()
        return
      }
      response.writeHead(200, { 'content-type': 'application/json', etag, 'cache-control': 'max-age=3600' })
      response.end(bytes)
    },
  }
}
