/**
 * Agents rebuilt from what real ones answered (`../shared/adcp/captures`): every folder becomes a server that gives
 * the captured answer to the request that was captured, and in general to requests of the same kind.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type RunningAgent, readJson, startHttp } from './upstream-agent.js'

export const CAPTURES = '../shared/adcp/captures'

type Arguments = Record<string, unknown>
type Capture = {
  file: string
  url?: string
  request?: { method: string; params?: Record<string, unknown> }
  http?: { status: number; sse?: boolean; headers?: Record<string, string> }
  response?: unknown
}

export const hasCaptures = existsSync(CAPTURES)

export function captureFolders(): string[] {
  return readdirSync(CAPTURES).sort()
}

export function readCaptures(folder: string): Capture[] {
  return readdirSync(join(CAPTURES, folder))
    .filter((file) => file.endsWith('.json'))
    .sort()
    .map((file) => ({ file, ...JSON.parse(readFileSync(join(CAPTURES, folder, file), 'utf8')) }))
}

/** The task and arguments in an MCP or an A2A request. */
export function invocation(request: Capture['request']): { task: string; args: Arguments } | undefined {
  const params = request?.params as {
    name?: string
    arguments?: Arguments
    message?: { parts?: { data?: { skill: string; input?: Arguments; parameters?: Arguments } }[] }
  }
  if (request?.method === 'tools/call') return { task: String(params.name), args: params.arguments ?? {} }
  const data = params?.message?.parts?.[0]?.data
  return data && { task: data.skill, args: data.input ?? data.parameters ?? {} }
}

function shape({ discovery_mode: mode, ...args }: Arguments): string {
  const { cursor } = (args.pagination ?? {}) as { cursor?: string }
  const tokens = args.if_wholesale_feed_version !== undefined
  const whole = mode === 'wholesale'
  return JSON.stringify([
    whole,
    cursor,
    tokens,
    'signal_spec' in args,
    'deliver_to' in args,
    'account' in args,
  ])
}

function isRefused({ http }: Capture): boolean {
  return http?.status === 401 // what it says without credentials
}

/** The captured answer that fits best: the same arguments, then the same kind of request. */
function pick(
  captures: readonly Capture[],
  task: string,
  { fields: _, ...args }: Arguments,
): Capture | undefined {
  const calls = captures.flatMap((capture) => {
    const call = invocation(capture.request)
    return call?.task === task && !isRefused(capture) ? [{ capture, args: call.args }] : []
  })
  const ofKind = calls.filter((call) => shape(call.args) === shape(args))
  return (calls.find((call) => isDeepStrictEqual(call.args, args)) ?? ofKind[0])?.capture
}

/** A page whose next one was not captured is the last one. */
function closePagination(answer: unknown, captures: readonly Capture[]): unknown {
  const asked = new Set(
    captures.map(({ request }) => JSON.stringify(request ?? {}).match(/"cursor":"([^"]*)"/)?.[1]),
  )
  const text = JSON.stringify(answer)
  const cursor = text.match(/"cursor":"([^"]*)"/)?.[1]
  if (cursor === undefined || asked.has(cursor)) return answer
  return JSON.parse(text.replace('"has_more":true', '"has_more":false'))
}

function sessionless(headers: Record<string, string> = {}): Record<string, string> {
  const kept = ['content-type', 'mcp-session-id']
  return Object.fromEntries(Object.entries(headers).filter(([name]) => kept.includes(name)))
}

/** Most rows in one answer, whatever its envelope. */
export function countRows(value: unknown): number {
  if (typeof value === 'string' && value.includes('"signals"')) return 0 // the text copy of structured content
  if (typeof value !== 'object' || value === null) return 0
  const { signals } = value as { signals?: unknown }
  if (Array.isArray(signals)) return signals.length
  return Object.values(value).reduce<number>((most, each) => Math.max(most, countRows(each)), 0)
}

/** No capture holds an activation: it is answered as each of these agents does, in the words that it was asked in. */
function activated({ destinations, deployments, platform }: Arguments): Arguments {
  const asked = (destinations ?? deployments ?? [{ type: 'platform', platform }]) as Arguments[]
  const activation_key = { type: 'segment_id', segment_id: 'captured-key' }
  return { status: 'completed', deployments: asked.map((one) => ({ ...one, is_live: true, activation_key })) }
}

function inEnvelope(method: string, payload: Arguments): Arguments {
  if (method === 'tools/call') return { content: [], structuredContent: payload }
  const artifacts = [{ artifactId: 'a', parts: [{ kind: 'data', data: payload }] }]
  return { kind: 'task', id: 't', contextId: 'c', status: { state: 'completed' }, artifacts }
}

/** `activations`: the arguments of each that came. */
export async function startReplay(
  folder: string,
): Promise<RunningAgent & { unanswered: string[]; activations: Arguments[] }> {
  const captures = readCaptures(folder)
  const sample = captures.find(({ url }) => url)?.url ?? 'http://x/mcp'
  const path = new URL(sample).pathname
  const card = captures.find(({ file }) => file.includes('agent-card'))
  const unanswered: string[] = []
  const activations: Arguments[] = []
  let agentUrl = ''

  const running = await startHttp(async (request, response) => {
    const json = { 'content-type': 'application/json' }
    if (request.method !== 'POST') {
      const isCard = card && request.url?.endsWith('/.well-known/agent-card.json')
      const { file, ...body } = card ?? { file: '' }
      if (isCard) response.writeHead(200, json).end(JSON.stringify({ ...body, url: agentUrl }))
      else response.writeHead(404, json).end('{}')
      return
    }
    const body = (await readJson(request)) as {
      id?: number
      method: string
      params?: Record<string, unknown>
    }
    const call = invocation(body)
    if (call?.task === 'activate_signal') {
      activations.push(call.args)
      const result = inEnvelope(body.method, activated(call.args))
      response.writeHead(200, json).end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }))
      return
    }
    const capture = call
      ? pick(captures, call.task, call.args)
      : captures.find((each) => each.request?.method === body.method)
    if (!capture) {
      unanswered.push(`${body.method} ${JSON.stringify(call ?? {})}`)
      const known = body.method === 'initialize' && !card
      const result = known
        ? {
            result: {
              protocolVersion: '2025-06-18',
              capabilities: {},
              serverInfo: { name: 'x', version: '1' },
            },
          }
        : { error: { code: -32601, message: 'Method not found' } }
      response.writeHead(200, json).end(JSON.stringify({ jsonrpc: '2.0', id: body.id, ...result }))
      return
    }
    const answer = closePagination(capture.response, captures) as { id: unknown }
    const text = JSON.stringify({ ...answer, id: answer.id === null ? null : body.id })
    response.writeHead(capture.http?.status ?? 200, { ...json, ...sessionless(capture.http?.headers) })
    const isStream = capture.http?.headers?.['content-type']?.includes('event-stream')
    response.end(isStream ? `event: message\ndata: ${text}\n\n` : text)
  }, path)
  agentUrl = running.url
  return { ...running, unanswered, activations }
}
