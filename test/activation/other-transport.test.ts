/** An agent that is found to speak MCP, and speaks A2A at the same url afterwards, while an activation and a task are open there. */
import { randomUUID } from 'node:crypto'
import { type Test, test } from 'tap'
import { activationOf, type Said, startOver } from '../support/federation-over.js'
import { until } from '../support/until.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const KEYED = { supported_versions: ['3.1'], idempotency: { supported: true, replay_ttl_seconds: 86_400 } }
const TOOLS = ['get_signals', 'activate_signal', 'get_task_status', 'get_adcp_capabilities']

async function startChanging(t: Test) {
  const tasks = new Map<string, string>() // by key
  let speaks = 'mcp'
  let cuts = false
  function answer(task: string, args: Said): Said {
    if (task === 'get_adcp_capabilities') return { ...CAPABILITIES, adcp: KEYED }
    if (task === 'get_signals') return { status: 'completed', signals: [row(1)] }
    if (task === 'get_task_status') return { task_id: args.task_id, status: 'working' }
    const task_id = tasks.get(args.idempotency_key) ?? `task_${tasks.size}`
    tasks.set(args.idempotency_key, task_id)
    return { status: 'submitted', task_id }
  }
  const mcp = (method: string, { name, arguments: args }: Said) => {
    if (method === 'tools/list')
      return { tools: TOOLS.map((one) => ({ name: one, inputSchema: { type: 'object' } })) }
    if (method === 'tools/call') return { content: [], structuredContent: answer(name, args) }
    const serverInfo = { name: 'changing', version: '1' }
    return { protocolVersion: '2025-03-26', capabilities: { tools: {} }, serverInfo }
  }
  const a2a = ({ message }: Said) => {
    const { skill, input } = message.parts[0].data
    const parts = [{ kind: 'data', data: answer(skill, input) }]
    return { kind: 'task', id: randomUUID(), status: { state: 'completed' }, artifacts: [{ parts }] }
  }
  const agent = await startHttp(async (request, response) => {
    const send = (status: number, body: object) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (request.method === 'GET' && speaks === 'a2a' && request.url?.endsWith('.json')) {
      return void send(200, { name: 'changing', url: agent.url, protocolVersion: '0.3.0', skills: [] })
    }
    if (request.method !== 'POST') return void send(404, {})
    const { id, method, params = {} } = (await readJson(request)) as Said
    if (id === undefined) return void response.writeHead(202).end()
    if ((method === 'message/send') !== (speaks === 'a2a')) {
      return void send(200, { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } })
    }
    const result = speaks === 'a2a' ? a2a(params) : mcp(method, params)
    if (cuts && params.name === 'activate_signal') return void request.socket.destroy()
    send(200, { jsonrpc: '2.0', id, result })
  }, '/agent')
  t.teardown(() => agent.close())
  return {
    url: agent.url,
    begun: () => tasks.size,
    cut: (now: boolean) => {
      cuts = now
    },
    change: () => {
      speaks = 'a2a'
    },
  }
}

test('what is open goes on where an agent speaks another transport than before, and is done once', async (t) => {
  const agent = await startChanging(t)
  const over = await startOver(t, [{ id: 'north', url: agent.url }])
  const [signal] = (await over.wholesale()).signals
  const activate = (key: string) => over.call('activate_signal', activationOf(signal, key))
  const { task_id } = await activate(`key-${randomUUID()}`)
  const open = `key-${randomUUID()}`
  agent.cut(true)
  t.match(await activate(open), { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
  agent.cut(false)
  agent.change()
  const answers: Said[] = []
  await until<Said>(
    async () => {
      const answer = await activate(open)
      answers.push(answer)
      return answer
    },
    ({ status }) => status === 'submitted',
  )
  t.ok(
    answers.every((one) => one.status === 'submitted' || one.adcp_error.code === 'SERVICE_UNAVAILABLE'),
    'it is never told as refused',
  )
  t.equal(agent.begun(), 2)
  await until<Said>(
    () => over.call('get_task_status', { task_id }),
    ({ status }) => status === 'working',
  )
})
