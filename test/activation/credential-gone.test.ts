import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { activationOf, type Said, startOver, TRADE_DESK } from '../support/federation-over.js'
import { until } from '../support/until.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const TOOLS = ['get_signals', 'activate_signal', 'get_task_status', 'get_adcp_capabilities'].map((name) => ({
  ...{ name, inputSchema: { type: 'object' } },
}))
const KEYED = { supported_versions: ['3.1'], idempotency: { supported: true, replay_ttl_seconds: 86_400 } }
const GONE = { adcp_error: { code: 'REFERENCE_NOT_FOUND', message: 'no such task of yours' } }

/** An agent that lets everybody in, and keeps the keys and tasks of each credential apart. */
async function startTenanted() {
  const began: string[] = [] // whose activations it began
  const asked: string[] = [] // who asked for a task
  const tasks = new Map<string, string>() // by credential and key
  let cuts = false
  function answer(whose: string, name: string, args: Said): Said {
    if (name === 'get_adcp_capabilities') return { ...CAPABILITIES, adcp: KEYED }
    if (name === 'get_signals') return { status: 'completed', signals: [row(1)] }
    if (name === 'get_task_status') {
      asked.push(whose)
      const isTheirs = [...tasks].some(([key, id]) => id === args.task_id && key.startsWith(whose))
      return isTheirs ? { task_id: args.task_id, status: 'working' } : GONE
    }
    const key = `${whose} ${args.idempotency_key}`
    if (!tasks.has(key)) began.push(whose)
    tasks.set(key, tasks.get(key) ?? `task_${tasks.size}`)
    return { status: 'submitted', task_id: tasks.get(key) }
  }
  const agent = await startHttp(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const { id, method, params } = (await readJson(request)) as Said
    if (id === undefined) return void response.writeHead(202).end()
    const called =
      method === 'tools/call' && answer(request.headers.authorization ?? '', params.name, params.arguments)
    if (cuts && params?.name === 'activate_signal') return void request.socket.destroy()
    const serverInfo = { name: 'tenanted', version: '1' }
    const result =
      method === 'initialize'
        ? { protocolVersion: '2025-03-26', capabilities: { tools: {} }, serverInfo }
        : called
          ? { content: [], structuredContent: called }
          : { tools: TOOLS }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  })
  const cut = (now: boolean) => {
    cuts = now
  }
  return { ...agent, began, asked, cut }
}

test('what went with a credential waits for it, and is neither sent nor asked for without one', async (t) => {
  const agent = await startTenanted()
  t.teardown(() => agent.close())
  const auth = { type: 'bearer', token: 'a-token-of-the-operator' }
  const upstreams = [{ id: 'north', url: agent.url, protocol: 'mcp', auth }]
  const over = await startOver(t, upstreams)
  const [signal] = (await over.wholesale()).signals
  const activate = (key: string) => over.call('activate_signal', activationOf(signal, key))
  const { task_id } = await activate(`key-${randomUUID()}`)
  const status = async () => (await over.call('get_task_status', { task_id })).status
  const open = `key-${randomUUID()}`
  agent.cut(true)
  t.match(await activate(open), { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
  agent.cut(false)

  over.reload({ upstreams: [] })
  const before = agent.asked.length
  t.match(await activate(open), { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
  const { created_at } = await over.call('get_task_status', { task_id })
  const age = () => Date.now() - Date.parse(created_at)
  await until(age, (ms) => ms > 1_000) // before that nobody is asked
  t.equal(await status(), 'submitted')
  t.equal(agent.asked.length, before, 'nobody asked in nobody`s name')

  const off = await over.call('activate_signal', {
    ...{ idempotency_key: `key-${randomUUID()}`, action: 'deactivate', destinations: [TRADE_DESK] },
    signal_agent_segment_id: signal.signal_agent_segment_id,
  })
  t.match(off, { adcp_error: { code: 'SERVICE_UNAVAILABLE', details: { reason: 'unauthorized' } } })

  over.reload({ upstreams })
  t.equal(await until(status, (now) => now !== 'submitted'), 'working')
  t.match(await activate(open), { status: 'submitted' })
  t.strictSame(agent.began, [`Bearer ${auth.token}`, `Bearer ${auth.token}`], 'each began once, in our name')
})
