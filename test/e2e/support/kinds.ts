/**
 * Kinds of agents that are alive, each with the quirks that were seen: what its tools name, what its answers look like, and what it
 * does when it is told something it does not know. One process an agent (kind-process.ts).
 */
import type { TaskHandler, ToolList } from '../../support/upstream-agent.js'

type Payload = Record<string, unknown>

export type Books = {
  /** Activations that it carried out. */
  activated: number
  deactivated: number
  /** Requests that it refused: they named what it does not know. */
  refused: string[]
  /** How often it was asked each task. */
  asked: Record<string, number>
  /** Whether its tasks wait. */
  holds: boolean
}

export type Kind = {
  name: string
  transport: 'mcp' | 'a2a'
  /** MCP's tools, or the skills of an A2A card. */
  tools: ToolList
  /** Signals that it has. */
  total: number
  /** Makes one such agent; what it does is written into its books. */
  open(books: Books): TaskHandler
}

const TEXT = { type: 'string' }

function tool(name: string, properties: Payload, closed = true): ToolList[number] {
  const inputSchema = { type: 'object' as const, properties, ...(closed && { additionalProperties: false }) }
  return { name, inputSchema }
}

const names = (...all: string[]) => Object.fromEntries(all.map((name) => [name, {}]))

const CURRENT = {
  status: 'completed',
  adcp: { major_versions: [3], supported_versions: ['3.1'], idempotency: { supported: true } },
  supported_protocols: ['signals'],
  signals: { discovery_modes: ['brief', 'wholesale'] },
  wholesale_feed_versioning: { supported: true },
}

const WHOLESALE_TOOLS = [
  tool('get_adcp_capabilities', names('adcp_version')),
  tool(
    'get_signals',
    names(
      'adcp_version',
      'discovery_mode',
      'signal_spec',
      'signal_refs',
      'pagination',
      'fields',
      'account',
      'if_wholesale_feed_version',
    ),
  ),
]

const ACTIVATION = [
  'adcp_version',
  'signal_agent_segment_id',
  'destinations',
  'idempotency_key',
  'pricing_option_id',
]

/** A signal of the agent's own, in the words of its release. */
function signal(at: number, more: Payload): Payload {
  return {
    signal_agent_segment_id: `segment_${at}`,
    name: `Signal ${at}`,
    description: 'People who drink coffee',
    signal_type: 'owned',
    data_provider: 'A House',
    coverage_percentage: 10,
    ...more,
  }
}

const options = (cpm: number) => ({
  pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
})
const bare = { pricing: { cpm: 2, currency: 'USD' } }
const OFF = ['the-trade-desk', 'dv360'].map((platform) => ({ type: 'platform', platform, is_live: false }))

const live = (destinations: unknown) =>
  (destinations as Payload[]).map((destination) => ({
    ...destination,
    is_live: true,
    activation_key: { type: 'segment_id', segment_id: 'a-key' },
  }))

function page(rows: readonly Payload[], args: Payload, most: number): Payload {
  const { max_results: size = most, cursor } = (args.pagination ?? {}) as {
    max_results?: number
    cursor?: string
  }
  const from = Number(cursor ?? 0)
  const to = from + Math.min(size, most)
  const more = to < rows.length
  return {
    signals: rows.slice(from, to),
    pagination: { has_more: more, total_count: rows.length, ...(more && { cursor: String(to) }) },
  }
}

/** Tasks by id: each is under way when it is first looked at, and while the agent holds. */
function openTasks(books: Books) {
  const tasks = new Map<unknown, { destinations: unknown; looks: number }>()
  return {
    begin(destinations: unknown): string {
      const id = `task-${tasks.size}`
      tasks.set(id, { destinations, looks: 0 })
      return id
    },
    /** What became live; undefined while it is under way. */
    done(id: unknown): Payload[] | undefined {
      const task = tasks.get(id)
      if (!task) return undefined
      task.looks += 1
      return task.looks === 1 || books.holds ? undefined : live(task.destinations)
    },
  }
}

const rowsOf = (total: number, of: (at: number) => Payload) =>
  Array.from({ length: total }, (_, at) => of(at))

/** As the protocol wants it: pages, tokens that move, tasks with a nested result, and `action`. */
const wellBehaved: Kind = {
  name: 'current, with a wholesale feed',
  transport: 'mcp',
  tools: [
    ...WHOLESALE_TOOLS,
    tool('activate_signal', names(...ACTIVATION, 'action')),
    tool('get_task_status', names('adcp_version', 'task_id', 'include_result')),
  ],
  total: 250,
  open(books) {
    const rows = rowsOf(250, (at) => signal(at, { deployments: OFF, ...options(2) }))
    const tasks = openTasks(books)
    return (task, args) => {
      if (task === 'get_adcp_capabilities') return CURRENT
      if (task === 'get_signals') {
        const tokens = { status: 'completed', wholesale_feed_version: 'v1', cache_scope: 'public' }
        const same = args.if_wholesale_feed_version === 'v1'
        return same ? { ...tokens, unchanged: true } : { ...tokens, ...page(rows, args, 100) }
      }
      if (task === 'get_task_status') {
        const about = { task_id: args.task_id, task_type: 'activate_signal' }
        const deployments = tasks.done(args.task_id)
        return deployments
          ? { ...about, status: 'completed', result: { deployments } }
          : { ...about, status: 'working' }
      }
      if (args.action === 'deactivate') {
        books.deactivated += 1
        return {
          status: 'completed',
          deployments: (args.destinations as Payload[]).map((one) => ({ ...one, is_live: false })),
        }
      }
      books.activated += 1
      return { status: 'submitted', task_id: tasks.begin(args.destinations) }
    }
  },
}

/** As the protocol SDK's example adapters: nothing listed, no `action`, a token that says the same whatever changed. */
const careless: Kind = {
  name: 'current, `deployments: []`, no `action`, a token that never moves',
  transport: 'mcp',
  tools: [...WHOLESALE_TOOLS, tool('activate_signal', names(...ACTIVATION), false)],
  total: 120,
  open(books) {
    let asked = 0
    return (task, args) => {
      if (task === 'get_adcp_capabilities') return CURRENT
      if (task === 'activate_signal') {
        books.activated += 1 // whatever it was told beside
        return { deployments: live(args.destinations) }
      }
      const isPoll = args.if_wholesale_feed_version === 'v1'
      if (isPoll) asked += 1
      const tokens = { status: 'completed', wholesale_feed_version: 'v1', cache_scope: 'public' }
      if (isPoll) return { ...tokens, unchanged: true }
      const rows = rowsOf(120, (at) => signal(at, { deployments: [], ...options(asked > 0 ? 7 : 2) }))
      return { ...tokens, ...page(rows, args, 100) }
    }
  },
}

/** The same over A2A, with a card that says nothing of deactivating. */
const silentCard: Kind = {
  name: 'current over A2A, with a card that does not speak of deactivating',
  transport: 'a2a',
  tools: ['get_adcp_capabilities', 'get_signals', 'activate_signal'].map((name) => tool(name, {}, false)),
  total: 40,
  open(books) {
    const rows = rowsOf(40, (at) => signal(at, { deployments: OFF, ...options(2) }))
    return (task, args) => {
      if (task === 'get_adcp_capabilities') return CURRENT
      if (task === 'get_signals') {
        return {
          status: 'completed',
          wholesale_feed_version: 'v1',
          cache_scope: 'public',
          ...page(rows, args, 100),
        }
      }
      if (task !== 'activate_signal') return undefined
      books.activated += 1
      return { status: 'completed', deployments: live(args.destinations) }
    }
  },
}

/** Brief only, in pages of 50, legacy ids, a flat task. */
const release30: Kind = {
  name: '3.0, brief only',
  transport: 'mcp',
  tools: [
    tool('get_adcp_capabilities', {}),
    tool('get_signals', names('signal_spec', 'signal_ids', 'pagination')),
    tool('activate_signal', names('signal_agent_segment_id', 'destinations', 'idempotency_key', 'action')),
    tool('get_task_status', names('task_id')),
  ],
  total: 120,
  open(books) {
    const rows = rowsOf(120, (at) => signal(at, { deployments: OFF, ...options(2) }))
    const tasks = openTasks(books)
    return (task, args) => {
      if (task === 'get_adcp_capabilities') {
        return { adcp: { major_versions: [3] }, supported_protocols: ['signals'] }
      }
      if (task === 'get_signals') return { status: 'completed', ...page(rows, args, 50) }
      if (task === 'get_task_status') {
        const deployments = tasks.done(args.task_id)
        return deployments ? { status: 'completed', deployments } : { status: 'working' }
      }
      if (args.action === 'deactivate') {
        books.deactivated += 1
        return { deployments: (args.destinations as Payload[]).map((one) => ({ ...one, is_live: false })) }
      }
      books.activated += 1
      return { status: 'submitted', task_id: tasks.begin(args.destinations) }
    }
  },
}

/** No capabilities; at most 50 rows, whatever number it is given. */
const release26: Kind = {
  name: '2.6: `deployments`',
  transport: 'mcp',
  tools: [
    tool('get_signals', { signal_spec: TEXT, filters: {}, max_results: { type: 'integer' } }),
    tool('activate_signal', names('signal_agent_segment_id', 'deployments')),
  ],
  total: 90,
  open(books) {
    const rows = rowsOf(90, (at) => signal(at, { deployments: OFF, ...bare }))
    return (task, args) => {
      if (task === 'get_signals')
        return { signals: rows.slice(0, Math.min(Number(args.max_results ?? 10), 50)) }
      books.activated += 1
      return { deployments: live(args.deployments) }
    }
  },
}

/** One platform at a time, by its name; tasks are polled under the older name, and told flat. */
const plural: Kind = {
  name: 'plural segment id, `platform`',
  transport: 'mcp',
  tools: [
    tool('get_signals', { signal_spec: TEXT, max_results: { type: 'integer', maximum: 1_000 } }),
    tool('activate_signal', { signals_agent_segment_id: TEXT, platform: TEXT, account: TEXT }),
    tool('tasks_get', { task_id: TEXT }),
  ],
  total: 575,
  open(books) {
    const rows = rowsOf(575, (at) => signal(at, { deployments: OFF, ...bare }))
    const tasks = openTasks(books)
    return (task, args) => {
      if (task === 'get_signals') return { signals: rows.slice(0, Number(args.max_results ?? 100)) }
      if (task === 'tasks_get') {
        const deployments = tasks.done(args.task_id)
        return deployments ? { status: 'completed', deployments } : { status: 'working' }
      }
      books.activated += 1
      const { platform } = args
      return { status: 'working', task_id: tasks.begin([{ type: 'platform', platform }]) }
    }
  },
}

/** The oldest: must be told where to deliver before it says anything. */
const deliverTo: Kind = {
  name: 'before 2.6: `deliver_to`',
  transport: 'mcp',
  tools: [
    tool('get_signals', { signal_spec: TEXT, deliver_to: {}, max_results: { type: 'integer' } }),
    tool('activate_signal', names('signal_agent_segment_id', 'deployments')),
  ],
  total: 30,
  open(books) {
    const rows = rowsOf(30, (at) => signal(at, { deployments: OFF, ...bare }))
    return (task, args) => {
      if (task === 'get_signals') {
        const { deployments, countries } = (args.deliver_to ?? {}) as Payload
        if (!Array.isArray(deployments) || !Array.isArray(countries)) return undefined
        return { signals: rows.slice(0, Number(args.max_results ?? 10)) }
      }
      books.activated += 1
      return { result: { deployments: live(args.deployments) } }
    }
  },
}

export const KINDS: readonly Kind[] = [
  wellBehaved,
  careless,
  silentCard,
  release30,
  release26,
  plural,
  deliverTo,
]

/** The agent of a kind, held to its own tool list: what a closed schema does not name is refused, as real agents do. */
export function strictly({ tools, open }: Kind, books: Books): TaskHandler {
  const handle = open(books)
  return (task, args) => {
    const own = tools.find(({ name }) => name === task)
    books.asked[task] = (books.asked[task] ?? 0) + 1
    if (!own) return undefined
    const { properties = {}, additionalProperties } = own.inputSchema as {
      properties?: Payload
      additionalProperties?: boolean
    }
    const strange = additionalProperties === false && Object.keys(args).find((name) => !(name in properties))
    if (!strange) return handle(task, args)
    books.refused.push(`${task}: ${strange}`)
    return undefined
  }
}
