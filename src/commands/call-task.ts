/** One task of a running agent, called over MCP. */
import { isRecord } from '../adcp/json.js'
import type { Address } from './address.js'
import { CommandFailure } from './terminal.js'

const TIMEOUT_MS = 150_000 // longer than the longest answer takes

export type Answer = Record<string, unknown> & { status: string; message?: string }

function refusalIn({ adcp_error: error }: Record<string, unknown>): string | undefined {
  if (!isRecord(error)) return undefined
  return [`${error.code}: ${error.message}`, error.suggestion]
    .filter((part) => typeof part === 'string')
    .join(' ')
}

/** Throws `CommandFailure` when the agent cannot be reached or refuses, in its own words. */
export async function callTask({ base, token }: Address, name: string, input: object): Promise<Answer> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(token && { authorization: `Bearer ${token}` }),
  }
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: input } }
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const reply = await fetch(`${base}/mcp`, {
    method: 'POST',
    headers,
    body: JSON.stringify(call),
    signal,
  }).catch(({ message, cause }: Error) => {
    const why = cause instanceof Error && cause.message ? cause.message : message
    throw new CommandFailure(`${base} cannot be reached (${why}); is the server running? --url says where`)
  })
  if (reply.status === 401)
    throw new CommandFailure(`${base} asks for a key; give one with --token or TRIBUTARY_TOKEN`)
  const { result, error } = (await reply.json()) as Record<string, Record<string, unknown> | undefined>
  const answer = result?.structuredContent
  if (!isRecord(answer)) throw new CommandFailure(String(error?.message ?? `HTTP ${reply.status}`))
  const refusal = refusalIn(answer)
  if (refusal !== undefined) throw new CommandFailure(refusal)
  return answer as Answer
}
