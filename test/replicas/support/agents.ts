/**
 * Agents that replicas read: each has a feed whose rows all carry its version, an account with prices of its own, and books of
 * what was activated. They know a replica by its address, count what it reads, and can be out of its reach.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { readJson, startHttp } from '../../support/upstream-agent.js'

/** Above any price of the rate card. */
export const OWN_CPM = 100
export const OWN_ACCOUNT = 'their_account'
const TOOLS = ['get_signals', 'activate_signal', 'get_task_status', 'get_adcp_capabilities']
/** Every so-manieth activation is a task first, and done when it is asked for. */
const EVERY_TASK = 4
/** A brief that begins so is a task, and answered when it was asked for so many times. */
export const LATE = 'later'
const ASKED_FOR = 1
const BRIEF_ROWS = 8

type Fields = Record<string, unknown>

const CAPABILITIES = {
  adcp: { supported_versions: ['3.1'], idempotency: { supported: true, replay_ttl_seconds: 86_400 } },
  supported_protocols: ['signals'],
  signals: { discovery_modes: ['brief', 'wholesale'] },
  wholesale_feed_versioning: { supported: true },
}

function createAgent(name: string, count: number) {
  let version = 0
  let reads = 0
  const acts = new Map<string, Set<string>>() // by segment: the keys under which it was activated
  const tasks = new Map<string, { left: number; result: Fields }>()

  function row(at: number, isOwn: boolean): Fields {
    return {
      signal_agent_segment_id: `${name}_${at}`,
      name: `Signal ${at} of ${name} ${version}`,
      description: 'People who drink coffee',
      signal_type: 'owned',
      data_provider: `House ${name}`,
      coverage_percentage: 10,
      deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: true }],
      pricing_options: [
        { pricing_option_id: 'po', model: 'cpm', cpm: (isOwn ? OWN_CPM : 0) + 1, currency: 'USD' },
      ],
    }
  }

  function page({ pagination, account, if_wholesale_feed_version: known }: Fields): Fields {
    reads += 1
    const isOwn = (account as Fields | undefined)?.account_id === OWN_ACCOUNT
    const token = `${version}${isOwn ? '-own' : ''}`
    const told = {
      status: 'completed',
      wholesale_feed_version: token,
      cache_scope: isOwn ? 'account' : 'public',
    }
    if (known === token) return { ...told, unchanged: true }
    const { max_results: size = 50, cursor } = (pagination ?? {}) as { max_results?: number; cursor?: string }
    const from = Number(cursor ?? 0)
    const to = Math.min(count, from + size)
    return {
      ...told,
      signals: Array.from({ length: to - from }, (_, at) => row(from + at, isOwn)),
      pagination: {
        has_more: to < count,
        total_count: count,
        ...(to < count && { cursor: String(to) }),
      },
    }
  }

  function activate({
    signal_agent_segment_id: segment,
    idempotency_key: key,
    destinations,
  }: Fields): Fields {
    const keys = acts.get(String(segment)) ?? new Set()
    acts.set(String(segment), keys.add(String(key)))
    const deployments = (destinations as Fields[]).map((one) => ({ ...one, is_live: true }))
    if (Number(String(segment).split('_').at(-1)) % EVERY_TASK > 0) return { deployments }
    const task_id = `task_${segment}`
    tasks.set(task_id, { left: 0, result: { deployments } })
    return { status: 'submitted', task_id }
  }

  function brief({ signal_spec: question }: Fields): Fields {
    const result = { signals: Array.from({ length: Math.min(BRIEF_ROWS, count) }, (_, at) => row(at, false)) }
    if (!String(question).startsWith(LATE)) return { status: 'completed', ...result }
    const task_id = `question_${tasks.size}`
    tasks.set(task_id, { left: ASKED_FOR, result })
    return { status: 'submitted', task_id }
  }

  function statusOf({ task_id }: Fields): Fields {
    const task = tasks.get(String(task_id))
    if (!task || task.left-- > 0) return { task_id, status: 'working' }
    return { task_id, status: 'completed', result: task.result }
  }

  return {
    name,
    count,
    version: () => version,
    /** Everything it offers has changed. */
    publish(): void {
      version += 1
    },
    /** Pages of its feed that were asked for. */
    reads: () => reads,
    /** By segment, how many different requests activated it. */
    acts: () => new Map([...acts].map(([segment, keys]) => [segment, keys.size])),
    call(task: string, args: Fields): Fields {
      if (task === 'get_adcp_capabilities') return CAPABILITIES
      if (task === 'activate_signal') return activate(args)
      if (task === 'get_task_status') return statusOf(args)
      return args.discovery_mode === 'wholesale' ? page(args) : brief(args)
    },
  }
}

export type Agent = ReturnType<typeof createAgent>

function reply(response: ServerResponse, id: unknown, result: object): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
}

/** One agent a name, all on one port. */
export async function startAgents(names: readonly string[], count: number) {
  const agents = new Map(names.map((name) => [name, createAgent(name, count)]))
  const out = new Set<string>()

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (out.has(request.socket.remoteAddress ?? '')) return void request.socket.destroy()
    const agent = agents.get(request.url?.split('/')[1] ?? '')
    if (request.method !== 'POST' || !agent) return void response.writeHead(agent ? 405 : 404).end()
    const { id, method, params = {} } = (await readJson(request)) as Fields & { params?: Fields }
    if (id === undefined) return void response.writeHead(202).end()
    if (method === 'initialize') {
      const serverInfo = { name: agent.name, version: '1' }
      return reply(response, id, { protocolVersion: '2025-03-26', capabilities: { tools: {} }, serverInfo })
    }
    if (method === 'tools/list') {
      return reply(response, id, {
        tools: TOOLS.map((name) => ({ name, inputSchema: { type: 'object' } })),
      })
    }
    const answer = agent.call(String(params.name), (params.arguments ?? {}) as Fields)
    reply(response, id, { content: [], structuredContent: answer })
  }

  const running = await startHttp(handle)
  return {
    all: [...agents.values()],
    urlOf: (name: string) => `${running.origin}/${name}/mcp`,
    /** A replica that is out of reach gets no answer from any of them. */
    reach(address: string, isReached: boolean): void {
      if (isReached) out.delete(address)
      else out.add(address)
    },
    close: running.close,
  }
}

export type Agents = Awaited<ReturnType<typeof startAgents>>
