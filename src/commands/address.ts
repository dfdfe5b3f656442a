/**
 * A running server, asked from the command line: its address in one form for every command, with or without `/mcp`, a
 * request to it, by an operator too, and one of its tasks called over MCP.
 */
import { isRecord, tryParseJson } from '../adcp/json.js'
import { forTerminal, shownUrl } from '../adcp/redaction.js'
import { check, type Static, type TSchema } from '../adcp/schema.js'
import { originAt } from '../adcp/url.js'
import { HEADER_VALUE } from '../config/address-rules.js'
import { loadPlace } from '../config/load.js'
import { CommandFailure, EXIT } from './terminal.js'

const OPERATOR_MS = 30_000
const TASK_MS = 150_000 // longer than the longest answer takes
const DEMO = { buyer: 'demo-buyer-key', operator: 'demo-operator-key' } // config/sandbox.yaml; public, and good for the sandbox only
const EVERYWHERE: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

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
  const base = (url || originAt(EVERYWHERE[host] ?? host, port)).replace(/\/(mcp\/?)?$/, '')
  if (!/^https?:/.test(base) || !URL.canParse(base)) {
    throw new CommandFailure(`--url or TRIBUTARY_URL: expected an http or https url, got ${base}`, EXIT.usage)
  }
  if (token && !HEADER_VALUE.test(token)) {
    throw new CommandFailure(
      '--token or TRIBUTARY_TOKEN: expected a key that can stand in a header',
      EXIT.usage,
    )
  }
  return { base, token: token ?? (sandbox && isHere(base) ? DEMO[role] : undefined) }
}

/** For a server that could not be connected to, or whose answer broke off. */
function unreachable(base: string, error: unknown): CommandFailure {
  const { message, cause } = error as Error
  const why = cause instanceof Error && cause.message ? cause.message : message
  return new CommandFailure(
    `${base} cannot be reached (${forTerminal(why)}); is the server running? --url says where`,
  )
}

type Reply = { status: number; text: string }

/**
 * One request to a path of the server, within so many ms, and all of its reply. Throws `CommandFailure` when there is none, or it
 * only names another address: a redirect would lose the key, or what was to be done.
 */
async function request(
  { base, token }: Address,
  path: string,
  { method, timeoutMs, body }: { method: 'GET' | 'POST'; timeoutMs: number; body?: object | undefined },
): Promise<Reply> {
  const headers = {
    ...(body && { 'content-type': 'application/json' }),
    ...(token && { authorization: `Bearer ${token}` }),
    accept: 'application/json, text/event-stream', // over MCP both
  }
  const signal = AbortSignal.timeout(timeoutMs)
  const sent = {
    method,
    headers,
    signal,
    redirect: 'manual',
    ...(body && { body: JSON.stringify(body) }),
  } as const
  const reply = async () => {
    const response = await fetch(`${base}${path}`, sent)
    return {
      status: response.status,
      text: await response.text(),
      location: response.headers.get('location'),
    }
  }
  const { status, text, location } = await reply().catch((error: unknown) =>
    Promise.reject(unreachable(base, error)),
  )
  if (location === null || status < 300 || status > 399) return { status, text }
  const there = shownUrl(new URL(location, base).href)
  throw new CommandFailure(`${base} says that it is elsewhere, at ${forTerminal(there)}; give that as --url`)
}

/** What the server says of a refusal: in an error of its own, or of JSON-RPC. */
function wordsOf(error: unknown): string | undefined {
  const said = isRecord(error) ? error.message : error
  return typeof said === 'string' ? forTerminal(said) : undefined
}

/** What is said where the answer has none of what was asked; `said`: in the server's words. */
function failureOf({ base, token }: Address, status: number, said: string | undefined): CommandFailure {
  if (status === 401) {
    const [state, wanted] = token ? ['does not accept this key', 'another'] : ['asks for a key', 'one']
    const why = said === undefined ? '' : ` (${said})`
    return new CommandFailure(`${base} ${state}${why}; give ${wanted} with --token or TRIBUTARY_TOKEN`)
  }
  if (said !== undefined) return new CommandFailure(said)
  return new CommandFailure(
    status === 403
      ? `${base} does not accept this key; give another with --token or TRIBUTARY_TOKEN`
      : `${base} gives no answer of an agent (HTTP ${status}); --url says where one is`,
  )
}

/**
 * What the server answers an operator, of the form that the command reads. Throws `CommandFailure` when it cannot be asked or
 * refuses, or what answers is no Tributary.
 */
export async function askServer<Answer extends TSchema>(
  target: Target,
  path: string,
  { method, body, answer }: { method: 'GET' | 'POST'; body?: object; answer: Answer },
): Promise<Static<Answer>> {
  const server = await addressOf(target, 'operator')
  const { status, text } = await request(server, path, { method, timeoutMs: OPERATOR_MS, body })
  const given = tryParseJson(Buffer.from(text), Number.POSITIVE_INFINITY)
  if (status < 300 && check<Static<Answer>>(answer).conforms(given)) return given
  throw failureOf(server, status, status < 300 || !isRecord(given) ? undefined : wordsOf(given.error))
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
  const stream = createEventStream(bytes.byteLength, () => 'candidate')
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

/** Throws `CommandFailure` when the agent cannot be reached or refuses, in its own words, or what is there is none. */
export async function callTask(server: Address, name: string, input: object): Promise<TaskResult> {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: input } }
  const { status, text } = await request(server, '/mcp', { method: 'POST', timeoutMs: TASK_MS, body })
  const { result, error } = responseIn(await messagesIn(text))
  const answer = isRecord(result) ? result.structuredContent : undefined
  if (status === 401 || !isRecord(answer)) throw failureOf(server, status, wordsOf(error))
  const refusal = refusalIn(answer)
  if (refusal !== undefined) throw new CommandFailure(refusal)
  return answer as TaskResult
}
