import { once } from 'node:events'
import { createServer, connect as dial } from 'node:net'
import { type Test, test } from 'tap'
import { createA2aAgent } from '../../src/upstreams/agent/a2a.js'
import type { Agent, AgentOptions } from '../../src/upstreams/agent/agent.js'
import { createMcpAgent } from '../../src/upstreams/agent/mcp.js'
import { startA2aAgent } from '../support/upstream-a2a.js'
import { type RunningAgent, startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'

const BUDGET = { timeoutMs: 30_000 }
const answer: TaskHandler = (task) => (task === 'get_signals' ? { signals: [] } : { deployments: [] })

/** Passes bytes on to a server, and closes the connection in place of what has a text that it is told. */
async function between(t: Test, port: number) {
  let text: string | undefined
  let sent = ''
  const server = createServer((client) => {
    const agent = dial(port, '127.0.0.1')
    for (const [from, to] of [
      [client, agent],
      [agent, client],
    ] as const) {
      from.on('error', () => {}).on('close', () => to.destroy())
      t.teardown(() => from.destroy())
    }
    agent.on('data', (bytes) => client.write(bytes))
    client.on('data', (bytes) => {
      sent += bytes
      if (text === undefined || !bytes.includes(text)) agent.write(bytes)
      else {
        text = undefined
        client.destroy()
      }
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  return {
    origin: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    closeAt(wanted: string): void {
      text = wanted
    },
    /** How often a text was sent. */
    times: (wanted: string) => sent.split(wanted).length - 1,
  }
}

const AGENTS: [string, () => Promise<RunningAgent>, (options: AgentOptions) => Agent][] = [
  ['MCP', () => startMcpAgent(answer), createMcpAgent],
  ['A2A', () => startA2aAgent(answer, ['1.0']), createA2aAgent],
]

for (const [protocol, start, createAgent] of AGENTS) {
  test(`of what is asked over ${protocol}, reads outlive the close of a kept connection, and no change is sent twice`, async (t) => {
    const running = await start()
    t.teardown(running.close)
    const { origin, closeAt, times } = await between(t, Number(new URL(running.origin).port))
    const { send } = openEgress(t, loopback).egress
    const url = running.url.replace(running.origin, origin)
    const agent = createAgent({ send, url, auth: { type: 'none' } })
    t.match(await agent.call('get_signals', {}, BUDGET), { kind: 'answer' })
    const before = times('get_signals')

    closeAt('get_signals')
    t.match(await agent.call('get_signals', {}, BUDGET), { kind: 'answer' })
    t.equal(times('get_signals'), 3 * before)

    closeAt('activate_signal')
    t.match(await agent.call('activate_signal', {}, BUDGET), { kind: 'failed', reason: 'unreachable' })
    t.equal(times('activate_signal'), before)
    t.match(await agent.call('activate_signal', {}, BUDGET), { kind: 'answer' })
  })
}
