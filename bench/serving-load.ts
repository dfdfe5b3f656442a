/**
 * A load of requests on one url: so many connections, each with one request under way, and what it costs the process behind
 * it. The generator is no part of what is measured.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Pool } from 'undici'

/** Asked in turn, each by whoever holds the token. */
export type Ask = { body: string; token?: string | undefined }
export type Load = {
  asks: readonly Ask[]
  headers?: Readonly<Record<string, string>>
  connections?: number
}
export type Cost = { cpuMicros: number; rps: number; p50: number; p99: number }

export const CONNECTIONS = 16

export const headersOf = ({ headers }: Load, { token }: Ask): Record<string, string> => ({
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2025-06-18',
  ...(token && { authorization: `Bearer ${token}` }),
  ...headers,
})

/** Tells the microseconds of CPU of a child process so far; it answers the message `cpu`. */
export const cpuOf = (server: ChildProcess) => async (): Promise<number> => {
  server.send('cpu')
  const [{ cpu }] = (await once(server, 'message')) as [{ cpu: NodeJS.CpuUsage }]
  return cpu.user + cpu.system
}

/** Sends so many requests of the load, and measures what they cost a server; `micros` tells its CPU so far. */
export async function measure(
  micros: () => number | Promise<number>,
  url: string,
  load: Load,
  requests: number,
): Promise<Cost> {
  const { origin, pathname: path } = new URL(url)
  const connections = load.connections ?? CONNECTIONS
  const pool = new Pool(origin, { connections, pipelining: 1 })
  const all = load.asks.map((ask) => ({ body: ask.body, headers: headersOf(load, ask) }))
  const took: number[] = []
  let next = 0
  async function ask(): Promise<void> {
    while (next < requests) {
      const one = all[next++ % all.length] as (typeof all)[number]
      const since = performance.now()
      const answer = await pool.request({ path, method: 'POST', ...one })
      await answer.body.dump({ limit: Number.POSITIVE_INFINITY })
      if (answer.statusCode !== 200) throw new Error(`${url}: ${answer.statusCode}`)
      took.push(performance.now() - since)
    }
  }
  const before = await micros()
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: connections }, ask))
  const seconds = (performance.now() - startedAt) / 1_000
  const cpuMicros = ((await micros()) - before) / requests
  await pool.close()
  took.sort((a, b) => a - b)
  const at = (share: number) => took[Math.floor(took.length * share)] as number
  return { cpuMicros, rps: requests / seconds, p50: at(0.5), p99: at(0.99) }
}
