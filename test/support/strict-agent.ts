/** An agent whose server tells apart what registries make of its url. */
import { readJson, startHttp, startMcpAgent } from './upstream-agent.js'
import { wholesaleAgent } from './upstream-feed.js'
import { rows } from './upstream-world.js'

type Test = { teardown(task: () => unknown): void }

/** An agent that is at one path only, letter by letter; at `/MCP`, nothing answers when `hangs`. */
export async function startStrictAgent(t: Test, { hangs = false } = {}) {
  const agent = await startMcpAgent(wholesaleAgent(rows(5), 'v1').handle)
  t.teardown(agent.close)
  const strict = await startHttp(async (request, response) => {
    if (hangs && request.url === '/MCP') return
    if (request.url !== '/mcp' || request.method !== 'POST') return void response.writeHead(404).end()
    const { 'content-type': type = '', accept = '' } = request.headers
    const body = JSON.stringify(await readJson(request))
    const answer = await fetch(agent.url, { method: 'POST', headers: { 'content-type': type, accept }, body })
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    response.end(await answer.text())
  })
  t.teardown(strict.close)
  return strict
}
