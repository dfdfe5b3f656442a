/** A server as seen through a proxy that tells of each page that is asked for, and waits for the test before it passes it on. */
import type { Test } from 'tap'
import { readJson, startHttp } from '../../support/upstream-agent.js'

type Asked = Record<string, unknown> & { pagination?: { cursor?: string } }
/** Resolves with nothing, or with a status that is answered in the server's place. */
type Before = (asked: Asked) => Promise<number | undefined> | number | undefined

export async function startGate(t: Test, server: string) {
  let before: Before = () => undefined
  const asked: Asked[] = []
  const gate = await startHttp(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const body = (await readJson(request)) as { method?: string; params?: { arguments?: Asked } }
    const input = body.method === 'tools/call' ? body.params?.arguments : undefined
    if (input) asked.push(input)
    const instead = input && (await before(input))
    if (instead !== undefined) return void response.writeHead(instead).end()
    const headers = Object.fromEntries(
      ['content-type', 'accept', 'authorization', 'mcp-protocol-version'].flatMap((name) => {
        const value = request.headers[name]
        return typeof value === 'string' ? [[name, value]] : []
      }),
    )
    const reply = await fetch(`${server}/mcp`, { method: 'POST', headers, body: JSON.stringify(body) })
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
