/**
 * Three agents over real HTTP, with books of their own: one that recognises repetitions, one that does not, one of before
 * 3.0. Each does with the next activations what it is told to: answers, cuts the line, hangs, refuses, works on it, lies.
 */
import type { ServerResponse } from 'node:http'
import { readJson, startHttp } from '../../support/upstream-agent.js'

export const KINDS = ['keyed', 'plain', 'old'] as const
export type Kind = (typeof KINDS)[number]

/** What an agent does with one activation: whether it acts, and what is heard of it. */
export const MANNERS = [
  'answers',
  'answers with nothing',
  'is cut before it acts',
  'is cut after it acted',
  'hangs before it acts',
  'hangs after it acted',
  'refuses',
  'is busy',
  'acts and says that it is busy',
  'acts and says something unreadable',
  'acts and says what nobody can read a meaning in',
  'works on it',
  'works on it and names no task',
] as const
export type Manner = (typeof MANNERS)[number]

/** How a task goes on that an agent works on. */
export const ENDS = [
  'completed',
  'completed without a result',
  'failed',
  'failed without a word',
  'canceled',
  'rejected',
  'input-required',
  'forgotten',
] as const
export type End = (typeof ENDS)[number]

/** One thing that an agent did. */
type Deed = { wish: string; isOn: boolean; account?: unknown; destinations: readonly Fields[] }

type Fields = Record<string, unknown>
type Said = { manner: Manner; answer?: Fields }
type Task = { deed: Deed; status: string; isForgotten?: boolean }

const ACTS: ReadonlySet<Manner> = new Set([
  'answers',
  'answers with nothing',
  'is cut after it acted',
  'hangs after it acted',
  'acts and says that it is busy',
  'acts and says something unreadable',
  'acts and says what nobody can read a meaning in',
])
const BUSY = { adcp_error: { code: 'SERVICE_UNAVAILABLE', message: 'busy', recovery: 'transient' } }
const NO = { adcp_error: { code: 'INVALID_REQUEST', message: 'no', recovery: 'correctable' } }
const UNKNOWN = { adcp_error: { code: 'REFERENCE_NOT_FOUND', message: 'gone' } }

/** Manners in which nothing is heard. */
const SILENT = /^(is cut|hangs|acts and says something)/
const MEANINGLESS = {
  status: 7,
  task_id: {},
  deployments: [null, { is_live: 'yes' }],
  errors: 'none',
  result: [[]],
}
const heard = (answer: Fields): Said => ({ manner: 'answers', answer })
const placeOf = ({ platform, account }: Fields, of: unknown) =>
  `${platform}#${account ?? ''} ${JSON.stringify(of ?? null)}`

function createAgent(kind: Kind) {
  const manners: Manner[] = []
  const deeds: Deed[] = []
  const live = new Map<string, Fields>()
  const keys = new Map<string, Fields>()
  const sent = new Map<string, string>() // what was asked for under a key, heard or not
  const misused: string[] = []
  const tasks = new Map<string, Task>()

  function act(deed: Deed): void {
    deeds.push(deed)
    for (const destination of deed.destinations) {
      const place = placeOf(destination, deed.account)
      if (deed.isOn) live.set(place, { ...destination, of: deed.account })
      else live.delete(place)
      for (const task of tasks.values()) {
        const isItsPlace = task.deed.destinations.some((one) => placeOf(one, task.deed.account) === place)
        if (isItsPlace && task.status === 'working') task.status = 'canceled' // what is newer counts
      }
    }
  }

  const deploymentsOf = ({ destinations, isOn }: Deed) =>
    destinations.map((destination) => ({ ...destination, is_live: isOn }))

  function capabilities(): Fields | undefined {
    if (kind === 'old') return undefined
    const idempotency =
      kind === 'keyed' ? { supported: true, replay_ttl_seconds: 86_400 } : { supported: false }
    return {
      adcp: { supported_versions: ['3.1'], idempotency },
      supported_protocols: ['signals'],
      signals: { discovery_modes: ['brief'] },
    }
  }

  const row = (account: unknown) => ({
    signal_agent_segment_id: `${kind}_segment`,
    name: `${kind} signal`,
    description: 'A signal of the model',
    signal_type: 'owned',
    data_provider: 'House',
    coverage_percentage: 10,
    deployments: [...live.values()]
      .filter(({ of }) => JSON.stringify(of) === JSON.stringify(account))
      .map(({ of: _, ...destination }) => ({ ...destination, is_live: true })),
    pricing: { cpm: 2, currency: 'USD' },
  })

  function taskStatus({ task_id }: Fields): Fields {
    const task = tasks.get(String(task_id))
    if (!task || task.isForgotten) return UNKNOWN
    if (task.status === 'completed without a result') return { task_id, status: 'completed' }
    if (task.status === 'failed without a word') return { task_id, status: 'failed' }
    return {
      ...{ task_id, status: task.status },
      ...(task.status === 'completed' && { result: { deployments: deploymentsOf(task.deed) } }),
      ...(task.status === 'failed' && { error: { code: 'INTERNAL_ERROR', message: 'it broke' } }),
    }
  }

  /** What is answered, now or to a repetition. */
  function carryOut(manner: Manner, deed: Deed): Fields {
    if (manner === 'refuses') return NO
    if (manner === 'is busy') return BUSY
    if (manner.startsWith('works on it')) {
      const task_id = `${kind}_task_${tasks.size + 1}`
      tasks.set(task_id, { deed, status: 'working' })
      return manner === 'works on it' ? { status: 'submitted', task_id } : { status: 'submitted' }
    }
    if (!ACTS.has(manner)) return {}
    act(deed)
    if (manner === 'acts and says what nobody can read a meaning in') return MEANINGLESS
    return manner === 'answers with nothing' ? {} : { deployments: deploymentsOf(deed) }
  }

  return {
    manners,
    deeds: (): readonly Deed[] => deeds,
    isLive: (destination: Fields, account: unknown) => live.has(placeOf(destination, account)),
    /** Tasks that it works on go on so. */
    endTasks(end: End): void {
      for (const task of tasks.values()) {
        if (task.status !== 'working' && task.status !== 'input-required') continue
        if (end === 'forgotten') task.isForgotten = true
        task.status = end === 'forgotten' ? 'gone' : 'ending' // its own act must not cancel it
        if (end.startsWith('completed')) act(task.deed)
        if (end !== 'forgotten') task.status = end
      }
    },
    /** Wishes whose key came with two requests (specification, "Idempotency"). */
    misused: (): readonly string[] => misused,
    forget(): void {
      for (const kept of [manners, deeds, misused]) kept.length = 0
      for (const kept of [live, keys, sent, tasks]) kept.clear()
    },
    tools: [
      'get_signals',
      'activate_signal',
      'get_task_status',
      ...(kind === 'old' ? [] : ['get_adcp_capabilities']),
    ],
    /** What is said to a call, and the manner of it: some say nothing. */
    call(name: string, args: Fields): Said {
      if (name === 'get_adcp_capabilities') return heard(capabilities() ?? { unknown: true })
      if (name === 'get_signals') return heard({ signals: [row(args.account)] })
      if (name === 'get_task_status') return heard(taskStatus(args))
      const key = String(args.idempotency_key)
      const kept = kind === 'keyed' ? keys.get(key) : undefined
      const manner = manners.shift() ?? 'answers'
      const request = JSON.stringify(args)
      const wish = /"(wish_\d+)"/.exec(request)?.[1] ?? 'nobody'
      if (kind === 'keyed' && (sent.get(key) ?? request) !== request) misused.push(wish)
      sent.set(key, request)
      if (kept) return SILENT.test(manner) ? { manner } : heard(kept)
      const deed = {
        wish,
        isOn: args.action !== 'deactivate',
        account: args.account,
        destinations: (args.destinations ?? args.deployments) as Fields[],
      }
      const answer = carryOut(manner, deed)
      if (ACTS.has(manner) || manner.startsWith('works on it')) keys.set(key, answer)
      return { manner, answer: manner === 'acts and says that it is busy' ? BUSY : answer }
    },
  }
}

export type ScriptedAgent = ReturnType<typeof createAgent>

function reply(response: ServerResponse, body: object): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', ...body }))
}

/** All three on one port; a run forgets what the one before left. */
export async function startScriptedAgents() {
  const agents = { keyed: createAgent('keyed'), plain: createAgent('plain'), old: createAgent('old') }
  const hanging = new Set<ServerResponse>()

  const running = await startHttp(async (request, response) => {
    const kind = KINDS.find((one) => request.url === `/${one}/mcp`)
    if (request.method !== 'POST' || !kind) {
      response.writeHead(kind ? 405 : 404).end()
      return
    }
    const agent = agents[kind]
    const { id, method, params = {} } = (await readJson(request)) as Fields & { params?: Fields }
    if (id === undefined) return void response.writeHead(202).end()
    if (method === 'initialize') {
      const serverInfo = { name: kind, version: '1' }
      const result = { protocolVersion: '2025-03-26', capabilities: { tools: {} }, serverInfo }
      return reply(response, { id, result })
    }
    if (method === 'tools/list') {
      const tools = agent.tools.map((name) => ({ name, inputSchema: { type: 'object' } }))
      return reply(response, { id, result: { tools } })
    }
    const { manner, answer } = agent.call(String(params.name), (params.arguments ?? {}) as Fields)
    if (manner === 'acts and says something unreadable') response.writeHead(502).end('<html>')
    else if (manner.startsWith('is cut')) request.socket.destroy()
    else if (manner.startsWith('hangs')) hanging.add(response)
    else if (answer?.unknown) {
      const content = [{ type: 'text', text: 'Unknown tool' }]
      reply(response, { id, result: { isError: true, content } })
    } else {
      const isError = answer?.adcp_error !== undefined
      reply(response, { id, result: { content: [], structuredContent: answer, ...(isError && { isError }) } })
    }
  })

  return {
    agents,
    urlOf: (kind: Kind) => `${running.origin}/${kind}/mcp`,
    forget(): void {
      for (const agent of Object.values(agents)) agent.forget()
      for (const response of hanging) response.destroy()
      hanging.clear()
    },
    close: running.close,
  }
}
