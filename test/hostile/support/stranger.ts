/** One server that plays many strangers, an honest agent and an honest provider among them: `/NAME/mcp`, `/NAME/a2a`. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { readJson, startHttp } from '../../support/upstream-agent.js'
import { row } from '../../support/upstream-world.js'
import { type Hostile, OTHER, type Seen, type Told, VICTIM } from './corpus.js'

export const GOOD_IDS = Array.from({ length: 20 }, (_, at) =>
  at < 3 ? (['a', 'b', 'c'][at] as string) : `good_${at}`,
)

type Message = { id?: unknown; method?: string; params?: Record<string, unknown> }

const goodRow = (id: string, at: number) =>
  row(at, { signal_ref: { scope: 'data_provider', data_provider_domain: VICTIM, signal_id: id } })

const json = (value: unknown): Told => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(value),
})

/** The task of a call and its arguments, over either transport. */
function asked({ params = {} }: Message): { task: string; args: Record<string, unknown> } {
  const message = params.message as { parts?: { data?: { skill?: string; input?: object } }[] } | undefined
  const data = message?.parts?.[0]?.data
  const [task, args] = data ? [data.skill, data.input] : [params.name, params.arguments]
  return { task: String(task ?? ''), args: (args ?? {}) as Record<string, unknown> }
}

function cursorOf(message: Message): string | undefined {
  const { cursor } = (asked(message).args.pagination ?? {}) as { cursor?: string }
  return cursor
}

function honest(message: Message, url: string, payload?: unknown): Told {
  const { id, method } = message
  const { task } = asked(message)
  const isA2a = url.includes('/a2a')
  const capabilities = { adcp: { major_versions: [3] }, signals: { discovery_modes: ['wholesale'] } }
  const given =
    payload ?? (task === 'get_signals' ? { signals: [], wholesale_feed_version: 'v1' } : capabilities)
  if (isA2a) {
    const artifacts = [{ parts: [{ data: given }] }]
    return json({
      jsonrpc: '2.0',
      id,
      result: { task: { id: 't', status: { state: 'TASK_STATE_COMPLETED' }, artifacts } },
    })
  }
  const opened = { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: { name: 'x', version: '1' } }
  return json({ jsonrpc: '2.0', id, result: method === 'initialize' ? opened : { structuredContent: given } })
}

const CRUMBS = Buffer.from('1\r\n \r\n'.repeat(10_000)) // as they stand on the wire

/** Sends one byte a chunk until it has sent `bytes`, or nobody listens any more. */
function crumble(response: ServerResponse, head: string | Buffer, bytes: number): void {
  const { socket } = response
  response.write(head)
  let sent = 0
  const more = () => {
    while (socket && !socket.destroyed && sent < bytes) {
      sent += 10_000
      if (!socket.write(CRUMBS)) return void socket.once('drain', more)
    }
    response.end()
  }
  more()
}

/** `change` may make another answer of each; `provider` and `listing` are what the provider and the registry answer. */
export async function startStrangers(
  corpus: readonly Hostile[],
  change: (told: Told, name: string) => Told = (told) => told,
) {
  const byName = new Map(corpus.map((one) => [one.name, one]))

  function answer(name: string, message: Message, seen: Seen, url: string): Told {
    const hostile = byName.get(name)
    const { task } = asked(message)
    if (name === 'good') {
      const signals = GOOD_IDS.map(goodRow)
      return honest(
        message,
        url,
        task === 'get_signals' ? { signals, wholesale_feed_version: 'v1' } : undefined,
      )
    }
    if (!hostile) return { status: 404, body: '' }
    if (task === 'get_signals') return change(hostile.answer(seen), name)
    const isOpening = message.method === 'initialize'
    return hostile.before && !isOpening ? change(hostile.before(seen), name) : honest(message, url)
  }

  function provider(origin: string): Told {
    return json({
      signals: GOOD_IDS.map((id) => ({ id, name: `Published ${id}`, value_type: 'binary' })),
      authorized_agents: [
        {
          url: `${origin}/good/mcp`,
          authorized_for: 'signals',
          authorization_type: 'signal_ids',
          signal_ids: GOOD_IDS,
        },
      ],
    })
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = request.url ?? ''
    const [, name = ''] = url.split(/[/?]/)
    const origin = `http://127.0.0.1:${request.socket.localPort}`
    const shown = `${request.headers.authorization} ${request.headers['x-adcp-auth']} ${url}`
    const seen: Seen = { id: 0, shown, cursor: undefined }
    let told: Told
    if (url === '/.well-known/adagents.json') {
      const file = provider(origin)
      told = request.headers.host === OTHER ? change(file, 'provider') : file
    } else if (url.startsWith('/api/registry/agents')) {
      const agents = corpus.map((one) => ({
        name: one.name,
        type: 'signals',
        url: `${origin}/${one.name}/${one.transport}`,
      }))
      told = change(json({ agents, count: agents.length }), 'registry')
    } else if (request.method === 'GET') {
      const hostile = byName.get(name)
      const isCard = hostile?.transport === 'a2a' && url.includes('.well-known')
      const card = json({ name, protocolVersion: '1.0', url: `${origin}/${name}/a2a`, skills: [] })
      told = isCard ? change(hostile.before?.(seen) ?? card, name) : { status: 404, body: '' }
    } else {
      const message = (await readJson(request)) as Message
      told =
        message.id === undefined
          ? { status: 202, body: '' }
          : answer(name, message, { ...seen, id: message.id, cursor: cursorOf(message) }, url)
    }
    response.writeHead(told.status ?? 200, told.headers)
    if (told.crumbs) crumble(response, told.body, told.crumbs)
    else response.end(told.body)
  }

  return startHttp(handle, '')
}
