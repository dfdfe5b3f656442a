/** A server as seen through a proxy that tells of each page that is asked for, and waits for the test before it passes it on. */
import type { ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { readJson, startHttp } from '../../support/upstream-agent.js'

type Asked = Record<string, unknown> & { pagination?: { cursor?: string } }
type Instead = { status: number; headers?: Record<string, string> }
/** Resolves with nothing, or with what is answered in the server's place. */
type Before = (asked: Asked) => Promise<Instead | number | undefined> | Instead | number | undefined

/** `stream`: answers who wants to hear of the server without asking; default: nobody may. */
export async function startGate(
  t: Test,
  server: string,
  stream: (response: ServerResponse) => void = (response) => response.writeHead(405).end(),
) {
  let before: Before = () => undefined
  const asked: Asked[] = []
  const gate = await startHttp(async (request, response) => {
    if (request.method !== 'POST') return stream(response)
    const body = (await readJson(request)) as { method?: string; params?: { arguments?: Asked } }
    const input = body.method === 'tools/call' ? body.params?.arguments : undefined
    if (input) asked.push(input)
    const instead = input && (await before(input))
    if (instead !== undefined) {
      const { status, headers = {} } = typeof instead === 'number' ? { status: instead } : instead
      return void response.writeHead(status, headers).end()
    }
    const headers = Object.fromEntries(
      ['content-type', 'accept', 'authorization', 'mcp-protocol-version'].flatMap((name) => {
        const value = request.headers[name]
        return typeof value === 'string' ? [[name, value]] : []
      }),
    )
    const place = new URL(server)
    if (place.pathname === '/') place.pathname = '/mcp'
    const reply = await fetch(place, { method: 'POST', headers, body: JSON.stringify(body) })
    const type = reply.headers.get('content-type')
    response.writeHead(reply.status, { ...(type && { 'content-type': type }) })
    response.end(Buffer.from(await reply.arrayBuffer()))
  })
  t.teardown(gate.close)
  return {
    url: gate.origin,
    asked,
    /** From the next question on. */
    before(next: Before): void {
      before = next
    },
  }
}
