/** A caller of whichever replica the balancer picks: it asks again where it is told to, or hears nothing. */
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'

// biome-ignore lint/suspicious/noExplicitAny: answers of every task are read
export type Said = Record<string, any>

/** A replica that stands still takes connections and says nothing. */
const PATIENCE_MS = 3_000
const LONGEST_PAUSE_MS = 500
/** What a caller is told to repeat. */
const AGAIN = new Set(['SERVICE_UNAVAILABLE', 'RATE_LIMITED'])

let id = 0

/** One request on a connection of its own. Rejects when nothing is heard. */
export async function ask(url: string, token: string, task: string, input: object): Promise<Said> {
  const params = { name: task, arguments: { adcp_version: '3.1', ...input } }
  const body = JSON.stringify({ jsonrpc: '2.0', id: ++id, method: 'tools/call', params })
  const sent = request(`${url}/mcp`, {
    method: 'POST',
    agent: false,
    signal: AbortSignal.timeout(PATIENCE_MS),
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-06-18',
      authorization: `Bearer ${token}`,
    },
  })
  const answer = await new Promise<Said>((resolve, reject) => {
    sent.once('response', (response) => text(response).then(JSON.parse).then(resolve, reject))
    sent.once('error', reject).end(body)
  })
  if (!answer.result) throw new Error(JSON.stringify(answer))
  return answer.result.structuredContent
}

type CallerOptions = {
  url: string
  token: string
  /** Whether it is still worth asking. */
  isOver(): boolean
  /** Told of each request that was answered. */
  onAnswer(task: string): void
}

/** Asks until there is an answer for good; undefined when it was not heard before all was over. */
export function createCaller({ url, token, isOver, onAnswer }: CallerOptions) {
  return async (task: string, input: object): Promise<Said | undefined> => {
    while (!isOver()) {
      const answer = await ask(url, token, task, input).catch(() => undefined)
      const { code, retry_after: again = 0.05 } = answer?.adcp_error ?? {}
      if (answer && !AGAIN.has(code)) {
        onAnswer(task)
        return answer
      }
      await wait(Math.min(LONGEST_PAUSE_MS, 1_000 * again))
    }
    return undefined
  }
}

export type Caller = ReturnType<typeof createCaller>
