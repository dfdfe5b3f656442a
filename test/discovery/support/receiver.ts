/** A webhook receiver on loopback that says what the test wants and remembers what came. */
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

type Test = { teardown(task: () => unknown): void }
export type Received = { headers: IncomingHttpHeaders; body: string; path: string }

/** `statusOf` gives the status of the n-th request, from 0. */
export async function startReceiver(t: Test, statusOf: (request: number) => number = () => 200) {
  const received: Received[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => {
      body += chunk
    })
    request.on('end', () => {
      const status = statusOf(received.length)
      received.push({ headers: request.headers, body, path: request.url ?? '' })
      response.writeHead(status).end('ok')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks?tenant=1`, received }
}
