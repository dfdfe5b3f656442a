// What the page shows, as calls that a program can make.

const KEY = '$TRIBUTARY_KEY'
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`

function curl(url, body, headers = []) {
  const lines = [
    `curl -s ${quoted(url)}`,
    `-H "authorization: Bearer ${KEY}"`,
    ...['content-type: application/json', ...headers].map((header) => `-H ${quoted(header)}`),
    `-d ${quoted(JSON.stringify(body))}`,
  ]
  return lines.join(' \\\n  ')
}

export const asMcp = (task, args) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: task, arguments: args },
})

export const asA2a = (task, args) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'SendMessage',
  params: {
    message: {
      messageId: crypto.randomUUID(),
      role: 'ROLE_USER',
      parts: [{ data: { skill: task, input: args } }],
    },
  },
})

export const asCurl = (task, args) =>
  curl(`${location.origin}/mcp`, asMcp(task, args), ['accept: application/json, text/event-stream'])
