/** Whom a stored call goes to, and in whose name, when the configuration changes while it is open. */
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Test, test } from 'tap'
import { activationOf, BUYER, type Said, startOver, TRADE_DESK } from '../support/federation-over.js'
import { until } from '../support/until.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { row } from '../support/upstream-world.js'

type Fields = Record<string, unknown>
type Act = { key: string; by: string; segment: string }

const TOOLS = ['get_signals', 'activate_signal', 'get_task_status', 'get_adcp_capabilities'].map((name) => ({
  ...{ name, inputSchema: { type: 'object' } },
}))
const CAPABILITIES = {
  adcp: { supported_versions: ['3.1'], idempotency: { supported: true, replay_ttl_seconds: 86_400 } },
  supported_protocols: ['signals'],
  signals: { discovery_modes: ['brief', 'wholesale'] },
}

/** An agent that knows its callers by their credentials, and a key by who sent it (specification, "Authentication" 6). */
async function startAgent(t: Test, rows: readonly Fields[]) {
  const acts: Act[] = []
  const answered = new Map<string, Fields>()
  let onActivation: (response: ServerResponse) => boolean = () => false

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const { id, method, params = {} } = (await readJson(request)) as Fields & { params?: Fields }
    const reply = (result: Fields) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    }
    if (id === undefined) return void response.writeHead(202).end()
    if (method === 'initialize') {
      const serverInfo = { name: 'agent', version: '1' }
      return reply({ protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo })
    }
    if (method === 'tools/list') return reply({ tools: TOOLS })
    const args = (params.arguments ?? {}) as Fields
    const say = (structuredContent: Fields) => reply({ content: [], structuredContent })
    if (params.name === 'get_adcp_capabilities') return say(CAPABILITIES)
    if (params.name === 'get_signals') return say({ status: 'completed', signals: rows })
    const by = String(request.headers.authorization)
    const key = String(args.idempotency_key)
    const name = `${by} ${key}`
    const deployments = (args.destinations as Fields[]).map((one) => ({ ...one, is_live: true }))
    if (!answered.has(name)) acts.push({ key, by, segment: String(args.signal_agent_segment_id) })
    answered.set(name, { status: 'completed', deployments })
    if (!onActivation(response)) say(answered.get(name) as Fields)
  }

  const running = await startHttp(handle)
  t.teardown(() => running.close())
  return {
    url: running.url,
    acts: (): readonly Act[] => acts,
    /** Whether it has taken the response over. */
    answerBy(next: typeof onActivation): void {
      onActivation = next
    },
  }
}

const auth = (token: string) => ({ type: 'bearer', token })
const caller = (credentials: object = {}) => ({
  anonymous: 'metadata',
  keys: [
    { id: 'buyer', token_sha256: hash('sha256', BUYER, 'hex'), destinations: [TRADE_DESK], credentials },
  ],
})

for (const [what, before, after] of [
  ['loses its own credential', { north: auth('theirs') }, {}],
  ['gets a credential of its own', {}, { north: auth('theirs') }],
] as const) {
  test(`a call that was sent is not repeated in another name when its caller ${what}`, async (t) => {
    const agent = await startAgent(t, [row(1)])
    const upstreams = [{ id: 'north', url: agent.url, auth: auth('ours') }]
    const over = await startOver(t, upstreams, { callers: caller(before) })
    const [signal] = (await over.wholesale()).signals
    const request = activationOf(signal)
    agent.answerBy((response) => !!response.destroy())
    t.match(await over.call('activate_signal', request), { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
    await over.reload({ callers: caller(after) })
    agent.answerBy(() => false)
    await over.call('activate_signal', request)
    t.equal(agent.acts().length, 1, JSON.stringify(agent.acts()))
  })
}

test('a call that waits for a place goes to its agent, whoever has the id of that agent meanwhile', async (t) => {
  const MANY = 33
  const rows = Array.from({ length: MANY }, (_, at) => row(at))
  const [first, second] = await Promise.all([startAgent(t, rows), startAgent(t, rows)])
  const north = (url: string) => ({ upstreams: [{ id: 'north', url, protocol: 'mcp' }] })
  const defaults = { concurrency: MANY - 1 }
  const over = await startOver(t, north(first.url).upstreams, { defaults })
  const { signals } = await over.wholesale({ pagination: { max_results: 50 } })
  const hanging: ServerResponse[] = []
  first.answerBy((response) => hanging.push(response) > 0)
  const asked = signals.map((signal: Said) => over.call('activate_signal', activationOf(signal)))
  const store = await over.stored()
  const written = async () => (await store.ledger.query({}, 50)).length
  await until(written, (count) => count === MANY)
  await until(
    () => hanging.length,
    (count) => count === MANY - 1,
  )
  await over.reload(north(second.url))
  first.answerBy(() => false)
  for (const response of hanging) response.destroy()
  await Promise.all(asked)
  t.equal(second.acts().length, 0, JSON.stringify(second.acts()))
})
