/** A child process: asks a server of its own the same question many times at each path, and tells what a request leaves. */
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Test } from 'tap'
import { leftOfEach, tellLeft } from '../../support/left-of-each.js'
import { BUYER_TOKEN, startServer } from '../../support/server-fixture.js'

const input = { discovery_mode: 'wholesale', pagination: { max_results: 3 } }
const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: 'get_signals', input } }] }
const CALLS: readonly [path: string, call: object][] = [
  ['/mcp', { method: 'tools/call', params: { name: 'get_signals', arguments: input } }],
  ['/a2a', { method: 'SendMessage', params: { message } }],
]

/** Posts the call over one connection. */
function poster(url: string, path: string, call: object) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const body = JSON.stringify({ jsonrpc: '2.0', id: 7, ...call })
  const head = [
    ...[`POST ${path} HTTP/1.1`, 'host: 127.0.0.1', `authorization: Bearer ${BUYER_TOKEN}`],
    ...['content-type: application/json', `content-length: ${body.length}`, 'a2a-version: 1.0'],
  ]
  const request = `${head.join('\r\n')}\r\n\r\n${body}`
  return async (): Promise<void> => {
    socket.write(request)
    let answer = ''
    while (!/^HTTP.*\r\n\r\n\{.*\}$/s.test(answer)) answer += String((await once(socket, 'data'))[0])
    if (!answer.startsWith('HTTP/1.1 200')) throw new Error(answer)
  }
}

async function main(): Promise<void> {
  const { url } = await startServer({ teardown: () => {} } as unknown as Test)
  const left: [path: string, bytes: number][] = []
  for (const [path, call] of CALLS) left.push([path, await leftOfEach(poster(url, path, call))])
  tellLeft(left)
}

if (process.send) await main()
