/**
 * A running server, asked from the command line: its address in one form for every command, with or without `/mcp`, a
 * request to it, by an operator too, and one of its tasks called over MCP.
 */
import { failuresAmong } from '../adcp/answer.js'
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

/** Where a redirect leads, as it may be shown; undefined for every other reply, and where that is no address. */
function elsewhereIn({ status, headers }: Response, base: string): string | undefined {
  const location = headers.get('location')
  if (location === null || status < 300 || status > 399 || !URL.canParse(location, base)) return undefined
  return forTerminal(shownUrl(new URL(location, base).href))
}

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
    const elsewhere = elsewhereIn(response, base)
    return { status: response.status, text: await response.text(), elsewhere }
  }
  const { elsewhere, ...given } = await reply().catch((error: unknown) =>
    Promise.reject(unreachable(base, error)),
  )
  if (elsewhere === undefined) return given
  throw new CommandFailure(`${base} says that it is elsewhere, at ${elsewhere}; give that as --url`)
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

type TaskResult = Record<string, unknown>

/** What an error of the protocol says, and below it what may be chosen instead. */
function errorText({ code, message, suggestion, retry_after, details }: TaskResult): string {
  const words = [code, message].filter((part) => typeof part === 'string').join(': ')
  const wait = typeof retry_after === 'number' && `retry_after: ${retry_after}`
  const said = [words, suggestion, wait].filter((part) => typeof part === 'string').join(' ')
  const choices = isRecord(details) && Array.isArray(details.choices) ? details.choices : []
  return [said, ...choices.map((choice) => `  ${JSON.stringify(choice)}`)].map(forTerminal).join('\n')
}

/**
 * Why a result of MCP is none of the answers that are expected: the first error that it names, or else its status and message.
 * Undefined when it is one. An answer without a status is a completed one.
 */
function refusalIn(answer: TaskResult, isError: boolean, expected: readonly string[]): string | undefined {
  const { status = 'completed', message, errors, adcp_error: error } = answer
  if (isRecord(error)) return errorText(error)
  if (!isError && expected.some((each) => each === status)) return undefined
  const [first] = failuresAmong(errors)
  if (first) return errorText(first)
  const state = isError || typeof status !== 'string' ? 'failed' : status
  return forTerminal(typeof message === 'string' ? `${state}: ${message}` : state)
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

/**
 * The answer to a task, in one of the statuses that the caller expects. Throws `CommandFailure` when the agent cannot be reached, or
 * answers otherwise, in its own words, or what is there is none.
 */
export async function callTask(
  server: Address,
  name: string,
  input: object,
  expected: readonly string[] = ['completed'],
): Promise<TaskResult> {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: input } }
  const { status, text } = await request(server, '/mcp', { method: 'POST', timeoutMs: TASK_MS, body })
  const { result, error } = responseIn(await messagesIn(text))
  if (status === 401 || !isRecord(result) || !isRecord(result.structuredContent)) {
    throw failureOf(server, status, wordsOf(error))
  }
  const { structuredContent: answer, isError } = result
  const refusal = refusalIn(answer, isError === true, expected)
  if (refusal !== undefined) throw new CommandFailure(refusal)
  return answer
}
