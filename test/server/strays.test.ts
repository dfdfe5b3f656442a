/** Requests that no route takes. */
import { test } from 'tap'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND']

/** Methods of the paths here; the console's and those of operators are like them. */
const PATHS: Readonly<Record<string, readonly string[]>> = {
  '/mcp': ['POST'],
  '/a2a': ['POST'],
  '/healthz': ['GET', 'HEAD'],
  '/metrics': ['GET', 'HEAD'],
  '/.well-known/agent-card.json': ['GET', 'HEAD'],
  '/explain': ['GET', 'HEAD'],
  '/refresh': ['POST'],
  '/events/token': ['POST'],
  '/%65vents/other?a=b': ['POST'],
  '/several': ['DELETE', 'GET', 'HEAD'],
}

test('a path is answered 405 for a method that it has not, with those that it has', async (t) => {
  const { raw } = await startServer(t, {
    explain: async () => ({ kind: 'explained', explanation: {} }),
    refresh: async () => true,
    feedEvents: async () => ({ status: 202 }),
    routes(app) {
      app.get('/several', async () => 'got')
      app.delete('/several', async () => 'deleted')
    },
  })
  const ask = (method: string, path: string, more = '') =>
    raw(
      `${method} ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${BUYER_TOKEN}\r\nConnection: close\r\n${more}\r\n`,
    )
  for (const [path, methods] of Object.entries(PATHS)) {
    for (const method of METHODS) {
      const [status] = /\d{3}/.exec(await ask(method, path)) ?? []
      if (methods.includes(method)) t.not(status, '405', `${method} ${path}`)
      else
        t.match(
          await ask(method, path),
          new RegExp(`^HTTP/1.1 405 .*\r\nallow: ${methods.join(', ')}\r\n`, 's'),
          `${method} ${path}`,
        )
    }
  }
  for (const path of ['/mcp/', '/nothing', '/events', '/events/a/b', '/%25']) {
    for (const method of METHODS) t.match(await ask(method, path), /^HTTP\/1.1 404 /, `${method} ${path}`)
  }
})

test('a body that nobody reads is not waited for', async (t) => {
  const { raw } = await startServer(t)
  const waiting = (start: string) =>
    raw(
      `${start} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\n`,
    )
  t.match(await waiting('PUT /mcp'), /^HTTP\/1.1 405 /)
  t.match(await waiting('POST /nothing'), /^HTTP\/1.1 404 /)
})
