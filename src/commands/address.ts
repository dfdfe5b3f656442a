/**
 * A running server, asked from the command line: its address in one form for every command, with or without `/mcp`, a
 * request to it, by an operator too, and one of its tasks called over MCP.
 */
import { isRecord, tryParseJson } from '../adcp/json.js'
import { forTerminal } from '../adcp/redaction.js'
import { loadPlace } from '../config/load.js'
import { CommandFailure, EXIT } from './terminal.js'

const OPERATOR_MS = 30_000
const TASK_MS = 150_000 // longer than the longest answer takes
const DEMO = { buyer: 'demo-buyer-key', operator: 'demo-operator-key' } // config/sandbox.yaml; public, and good for the sandbox only
const EVERYWHERE: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }

export type Target = {
  /** The configuration of the server. */
  config: string
  /** `--url`; default: where that server listens on this machine. */
  url: string | undefined
  token: string | undefined
}

/** `base`: without a slash at its end. `token`: as given, or on this machine the demo world's for this role. */
export type Address = { base: string; token: string | undefined }

/** Whether the server is on this machine: nobody else's knows the demo world's keys, and it would refuse who sends one. */
const isHere = (base: string) => /^(127\.[\d.]+|\[::1\]|localhost)$/.test(new URL(base).hostname)

/** Throws `ConfigError` when there is no such file, and `CommandFailure` for an address that is none. */
export async function addressOf({ config, url, token }: Target, role: keyof typeof DEMO): Promise<Address> {
  const { host, port, sandbox } = await loadPlace(config, process.env)
  const base = (url || `http://${EVERYWHERE[host] ?? host}:${port}`).replace(/\/(mcp\/?)?$/, '')
  if (!/^https?:/.test(base) || !URL.canParse(base)) {
    throw new CommandFailure(`--url or TRIBUTARY_URL: expected an http or https url, got ${base}`, EXIT.usage)
  }
  return { base, token: token ?? (sandbox && isHere(base) ? DEMO[role] : undefined) }
}

/** For a server that could not be connected to. */
function unreachable(base: string, error: unknown): CommandFailure {
  const { message, cause } = error as Error
  const why = cause instanceof Error && cause.message ? cause.message : message
  return new CommandFailure(
    `${base} cannot be reached (${forTerminal(why)}); is the server running? --url says where`,
  )
}

/** One request to a path of the server, within so many ms. Throws `CommandFailure` when it cannot be reached. */
async function request(
  { base, token }: Address,
  path: string,
  { method, timeoutMs, body }: { method: 'GET' | 'POST'; timeoutMs: number; body?: object | undefined },
): Promise<Response> {
  const headers = {
    ...(body && { 'content-type': 'application/json' }),
    ...(token && { authorization: `Bearer ${token}` }),
    accept: 'application/json, text/event-stream', // over MCP both
  }
  const signal = AbortSignal.timeout(timeoutMs)
  const sent = { method, headers, signal, ...(body && { body: JSON.stringify(body) }) }
  return await fetch(`${base}${path}`, sent).catch((error: unknown) =>
    Promise.reject(unreachable(base, error)),
  )
}

/** The JSON that the server answers an operator. Throws `CommandFailure` when it cannot be asked or refuses. */
export async function askServer(
  target: Target,
  path: string,
  method: 'GET' | 'POST',
  body?: object,
): Promise<unknown> {
  const server = await addressOf(target, 'operator')
  const response = await request(server, path, { method, timeoutMs: OPERATOR_MS, body })
  if (response.status === 401 || response.status === 403) {
    throw new CommandFailure('this needs a key with role: operator; give it as --token or TRIBUTARY_TOKEN')
  }
  const answer = (await response.json().catch(() => ({}))) as { error?: string }
  if (!response.ok) throw new CommandFailure(answer.error ?? `the server answered HTTP ${response.status}`)
  return answer
}

type TaskResult = Record<string, unknown> & { status: string; message?: string }

function refusalIn({ adcp_error: error }: Record<string, unknown>): string | undefined {
  if (!isRecord(error)) return undefined
  const wait = typeof error.retry_after === 'number' && `retry_after: ${error.retry_after}`
  const parts = [`${error.code}: ${error.message}`, error.suggestion, wait]
  const said = parts.filter((part) => typeof part === 'string').join(' ')
  const choices = isRecord(error.details) && Array.isArray(error.details.choices) ? error.details.choices : []
  return [said, ...choices.map((choice) => `  ${JSON.stringify(choice)}`)].map(forTerminal).join('\n')
}

/** What was answered, as JSON or message by message in a stream of events, whose reader is loaded with the first of them. */
async function messagesIn(text: string): Promise<readonly Uint8Array[]> {
  const bytes = Buffer.from(text)
  if (/^\s*[{[]/.test(text)) return [bytes]
  const { createEventStream } = await import('../upstreams/agent/event-stream.js')
  const stream = createEventStream(() => 'candidate')
  stream.begin()(bytes)
  return stream.end()
}

/** The response among the messages; empty when there is none. */
function responseIn(messages: readonly Uint8Array[]): Record<string, unknown> {
  for (const message of messages) {
    const value = tryParseJson(message, Number.POSITIVE_INFINITY) // a page may hold many
    if (isRecord(value) && (isRecord(value.result) || isRecord(value.error))) return value
  }
  return {}
}

/** What is said of an answer without a result. */
function failureOf({ base }: Address, status: number, error: unknown): CommandFailure {
  if (isRecord(error) && typeof error.message === 'string') {
    return new CommandFailure(forTerminal(error.message))
  }
  return new CommandFailure(
    status === 403
      ? `${base} does not accept this key; give another with --token or TRIBUTARY_TOKEN`
      : `${base} gives no answer of an agent (HTTP ${status}); --url says where one is`,
  )
}

/** Throws `CommandFailure` when the agent cannot be reached or refuses, in its own words, or what is there is none. */
export async function callTask(server: Address, name: string, input: object): Promise<TaskResult> {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: input } }
  const reply = await request(server, '/mcp', { method: 'POST', timeoutMs: TASK_MS, body })
  if (reply.status === 401) {
    const wanted = server.token ? 'does not accept this key; give another' : 'asks for a key; give one'
    throw new CommandFailure(`${server.base} ${wanted} with --token or TRIBUTARY_TOKEN`)
  }
  const text = await reply.text().catch((error: unknown) => Promise.reject(unreachable(server.base, error)))
  const { result, error } = responseIn(await messagesIn(text))
  const answer = isRecord(result) ? result.structuredContent : undefined
  if (!isRecord(answer)) throw failureOf(server, reply.status, error)
  const refusal = refusalIn(answer)
  if (refusal !== undefined) throw new CommandFailure(refusal)
  return answer as TaskResult
}
