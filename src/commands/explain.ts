/** `tributary explain REF`: asks a running server why a signal or an upstream is, or is not, in its feed. */
import type { Config } from '../config/values.js'
import type { Explanation } from '../explain/explain.js'
import { explanationText } from '../explain/text.js'
import { CommandFailure, EXIT } from './failure.js'
import { tableWidth } from './table.js'

const DEMO_OPERATOR = 'demo-operator-key' // config/sandbox.yaml; public, and good for the sandbox only
const TIMEOUT_MS = 30_000

export type ExplainCommand = {
  config: Config
  ref: string
  /** Of the server; by default where `serve` with the same configuration listens. */
  url: string | undefined
  token: string | undefined
  caller: string | undefined
  filters: Record<string, unknown> | undefined
  countries: readonly string[]
  json: boolean
  out: NodeJS.WriteStream
}

function question({ ref, caller, filters, countries }: ExplainCommand): URLSearchParams {
  const params = new URLSearchParams({ ref })
  if (caller !== undefined) params.set('caller', caller)
  if (filters) params.set('filters', JSON.stringify(filters))
  for (const country of countries) params.append('country', country)
  return params
}

async function ask(address: string, token: string | undefined): Promise<Response> {
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {}
  try {
    return await fetch(address, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
  } catch (error) {
    const { cause, message } = error as Error
    const why = cause instanceof Error && cause.message ? cause.message : message
    const { origin } = new URL(address)
    throw new CommandFailure(`${origin} cannot be reached (${why}); is the server running? --url says where`)
  }
}

/** Prints the explanation. Throws `CommandFailure` when the server cannot be asked or refuses. */
export async function printExplanation(command: ExplainCommand): Promise<void> {
  const { config, json, out } = command
  const { publicUrl, host, port } = config.listen
  const base = (command.url ?? publicUrl ?? `http://${host}:${port}`).replace(/\/(mcp\/?)?$/, '')
  if (!URL.canParse(base))
    throw new CommandFailure(`--url: expected an http or https url, got ${base}`, EXIT.usage)
  const token = command.token ?? (config.sandbox ? DEMO_OPERATOR : undefined)
  const response = await ask(`${base}/explain?${question(command)}`, token)
  if (response.status === 401 || response.status === 403) {
    throw new CommandFailure('this needs a key with role: operator; give it as --token or TRIBUTARY_TOKEN')
  }
  const body = (await response.json().catch(() => ({}))) as Explanation & { error?: string }
  if (!response.ok) throw new CommandFailure(body.error ?? `the server answered HTTP ${response.status}`)
  out.write(json ? `${JSON.stringify(body)}\n` : `${explanationText(body, tableWidth(out))}\n`)
}
