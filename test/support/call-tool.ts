/** Calls a task of a running server over MCP, as a client of revision 2025-06-18 does. */
import { fetchServed } from './fetch-served.js'

let id = 0

/** The flat answer. Throws with the HTTP status and the body when the server gave none. */
export async function callTool<Answer>(
  url: string,
  task: string,
  input: object,
  token: string | undefined,
): Promise<Answer> {
  const response = await fetchServed(`${url}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-06-18',
      ...(token && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: ++id,
      method: 'tools/call',
      params: { name: task, arguments: input },
    }),
  })
  const body = (await response.json()) as { result?: { structuredContent: Answer } }
  if (!body.result) throw new Error(`${response.status}: ${JSON.stringify(body)}`)
  return body.result.structuredContent
}
