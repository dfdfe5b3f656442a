// What the page shows, as calls that a program can make.
import { html } from './h.js'
import { Copy } from './parts.js'

const KEY = '$TRIBUTARY_TOKEN'
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

const asMcp = (task, args) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: task, arguments: args },
})

// crypto.randomUUID is missing where the page came over plain HTTP from another machine.
const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

const asA2a = (task, args) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'SendMessage',
  params: {
    message: {
      messageId: newId(),
      role: 'ROLE_USER',
      parts: [{ data: { skill: task, input: args } }],
    },
  },
})

const asCurl = (task, args) =>
  curl(`${location.origin}/mcp`, asMcp(task, args), ['accept: application/json, text/event-stream'])

/** Buttons that copy the question of the page; the shell reads the key from $TRIBUTARY_TOKEN, as the commands do. */
export function Calls({ task, args }) {
  return html`<span class="copies" role="group" aria-label="Copy this question">
    <${Copy} label="Copy as curl" text=${() => asCurl(task, args)} />
    <${Copy} label="as MCP" text=${() => JSON.stringify(asMcp(task, args), null, 2)} />
    <${Copy} label="as A2A" text=${() => JSON.stringify(asA2a(task, args), null, 2)} />
  </span>`
}
