import { inspect } from 'node:util'
import { serialize } from 'node:v8'
import { test } from 'tap'
import type { Send } from '../../src/net/send.js'
import { createA2aAgent } from '../../src/upstreams/agent/a2a.js'
import { createMcpAgent } from '../../src/upstreams/agent/mcp.js'

const BUDGET = { timeoutMs: 60_000 }
const URL_OF = { mcp: 'https://signals.a.example/mcp', a2a: 'https://signals.a.example/a2a' } as const
const TOKEN = 'north-4f9a1c77'
const LARGE = 900_000 // characters: it is read in a thread
const MANY = 60_000

type Tool = Record<string, unknown>

/** An agent that lists these tools, and more beside them. */
function agentWith(transport: 'mcp' | 'a2a', tools: () => readonly Tool[], beside: object = {}) {
  const send: Send = async ({ url, body }) => {
    const { id, method } = JSON.parse(String(body ?? '{}')) as { id?: number; method?: string }
    const result =
      method === 'initialize' ? { protocolVersion: '2025-11-25', ...beside } : { tools: tools(), ...beside }
    const card = { name: 'x', url: URL_OF.a2a, skills: tools(), ...beside }
    const said = transport === 'mcp' ? { jsonrpc: '2.0', id, result } : card
    return { kind: 'reply', status: 200, headers: {}, body: Buffer.from(JSON.stringify(said)), url }
  }
  const options = { send, url: URL_OF[transport], auth: { type: 'bearer', token: TOKEN } as const }
  return transport === 'mcp' ? createMcpAgent(options) : createA2aAgent(options)
}

const told = (value: unknown) => inspect(value, { depth: 20, maxArrayLength: null, maxStringLength: null })

for (const transport of ['mcp', 'a2a'] as const) {
  test(`of a list over ${transport} a few words are taken over, however much it is`, async (t) => {
    const odd = Array.from({ length: MANY }, (_, at) => ({ [at.toString(36)]: 0 }))
    const described = { name: 'get_signals', description: 'x'.repeat(LARGE), inputSchema: { x: 1 } }
    for (const tools of [odd, [described]]) {
      const agent = agentWith(transport, () => tools, {
        odd: tools === odd ? odd.slice(0, 100) : odd.slice(0, 9),
      })
      const found = await agent.tools(BUDGET)
      t.match(found, { kind: 'tools', tools: tools === odd ? [] : [{ name: 'get_signals' }] })
      t.ok(serialize(found).byteLength < 2_048)
    }
  })

  test(`what an agent over ${transport} lists is told without our credential`, async (t) => {
    const tools = [
      {
        name: `x_${TOKEN}`,
        description: `${'so '.repeat(163)}Bearer ${TOKEN}`,
        inputSchema: { properties: { [TOKEN]: { type: 'string' } } },
      },
    ]
    for (const beside of [{}, { filler: 'x'.repeat(LARGE) }]) {
      const found = told(await agentWith(transport, () => tools, beside).tools(BUDGET))
      t.match(found, /\[secret\]/)
      t.notMatch(found, TOKEN.slice(0, 5), 'nor a half of it, where a text is cut')
    }
  })

  test(`what an agent over ${transport} lists now is what is read`, async (t) => {
    let name = 'first'
    const agent = agentWith(transport, () => [{ name }])
    t.match(await agent.tools(BUDGET), { tools: [{ name: 'first' }] })
    name = 'second'
    t.match(await agent.tools(BUDGET), { tools: [{ name: 'second' }] })
  })
}
