/** Calls of a task as raw JSON-RPC over either transport, so that no client stands between a check and the answer. */
const HEADERS = {
  mcp: { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-06-18' },
  a2a: { 'a2a-version': '1.0' },
}

function request(transport, task, args) {
  if (transport === 'mcp') return ['tools/call', { name: task, arguments: args }]
  const parts = [{ data: { skill: task, input: args } }]
  return ['SendMessage', { message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts } }]
}

function payload(transport, { result, error }) {
  if (error) throw new Error(`JSON-RPC error ${error.code}: ${error.message}`)
  if (transport === 'mcp') return result.structuredContent
  return result.task.artifacts[0].parts.findLast((part) => part.data).data
}

/** `(task, arguments)` to the flat answer. Rejects when there is none. */
export function caller(url, transport, key) {
  return async (task, args) => {
    const [method, params] = request(transport, task, args)
    const reply = await fetch(`${url}/${transport}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...HEADERS[transport] },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      signal: AbortSignal.timeout(30_000),
    })
    if (!reply.ok) throw new Error(`HTTP ${reply.status}: ${(await reply.text()).slice(0, 200)}`)
    return payload(transport, await reply.json())
  }
}

let keys = 0
const run = crypto.randomUUID()

/** A fresh idempotency key. */
export function freshKey() {
  keys += 1
  return `conformance-${run}-${keys}`
}
