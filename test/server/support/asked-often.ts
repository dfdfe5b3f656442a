/**
 * A child process: asks a server of its own the same question many times at each path, and tells its parent how many bytes
 * a request leaves in the old space. A test runner's hooks would keep what they have seen, so it has none.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { getHeapSpaceStatistics } from 'node:v8'
import type { Test } from 'tap'
import { BUYER_TOKEN, startServer } from '../../support/server-fixture.js'

const REQUESTS = 500
const ROUNDS = 3
const A_COLLECTION = 50

const input = { discovery_mode: 'wholesale', pagination: { max_results: 3 } }
const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: 'get_signals', input } }] }
const CALLS: readonly [path: string, call: object][] = [
  ['/mcp', { method: 'tools/call', params: { name: 'get_signals', arguments: input } }],
  ['/a2a', { method: 'SendMessage', params: { message } }],
]
const { gc } = globalThis as unknown as { gc(options: { type: 'minor' }): void } // set by the flag --expose-gc

/** Bytes that survived collections of the young space; they stay until the old one is collected. */
const oldBytes = () =>
  getHeapSpaceStatistics().find(({ space_name: name }) => name === 'old_space')?.space_used_size ?? 0

/** Posts the call again and again over one connection. */
function poster(url: string, path: string, call: object) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const body = JSON.stringify({ jsonrpc: '2.0', id: 7, ...call })
  const head = [
    ...[`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', `authorization: Bearer ${BUYER_TOKEN}`],
    ...['content-type: application/json', `content-length: ${body.length}`, 'a2a-version: 1.0'],
  ]
  const request = `${head.join('\r\n')}\r\n\r\n${body}`
  return async (times: number): Promise<void> => {
    for (let asked = 1; asked <= times; asked += 1) {
      socket.write(request)
      let answer = ''
      while (!/^HTTP.*\r\n\r\n\{.*\}$/s.test(answer)) answer += String((await once(socket, 'data'))[0])
      if (!answer.startsWith('HTTP/1.1 200')) throw new Error(answer)
      if (asked % A_COLLECTION === 0) gc({ type: 'minor' })
    }
  }
}

async function main(): Promise<void> {
  const { url } = await startServer({ teardown: () => {} } as unknown as Test)
  const left: [path: string, bytes: number][] = []
  for (const [path, call] of CALLS) {
    const post = poster(url, path, call)
    await post(REQUESTS)
    const rounds: number[] = []
    while (rounds.length < ROUNDS) {
      const before = oldBytes()
      await post(REQUESTS)
      rounds.push((oldBytes() - before) / REQUESTS)
    }
    left.push([path, Math.min(...rounds)]) // what requests leave is there in every round, compiled code in one
  }
  process.send?.(left, () => process.exit())
}

if (process.send) await main()
