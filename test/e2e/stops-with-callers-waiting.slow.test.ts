/** A stop answers whoever had connected by then, with what it began for them: in order, and after a fault, which does not drain. */
import { connect } from 'node:net'
import { test } from 'tap'
import { BUYER, startOver } from '../support/federation-over.js'
import { received } from '../support/received.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const CALLERS = 100

function briefOf(host: string, words: string): string {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'get_signals', arguments: { signal_spec: words } },
  })
  const head = `POST /mcp HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${BUYER}\r\nAccept: application/json\r\n`
  return `${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

for (const isFault of [false, true]) {
  test(`briefs that came with ${isFault ? 'a fault' : 'the signal'} are answered`, async (t) => {
    const agent = wholesaleAgent([row(1)], 'v1')
    const found = { status: 'completed', signals: [row(2)], pagination: { has_more: false } }
    const { url, close } = await startMcpAgent((task, args) =>
      args.discovery_mode === 'brief' ? found : agent.handle(task, args),
    )
    t.teardown(close)
    const { federation } = await startOver(t, [{ id: 'north', url }])
    const { port, hostname, host } = new URL(federation.url)
    const sockets = Array.from({ length: CALLERS }, () => connect(Number(port), hostname))
    const answers = sockets.map(received)
    for (const [n, socket] of sockets.entries()) socket.write(briefOf(host, `hikers ${n}`))
    await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
    if (!isFault) await federation.drain()
    await federation.close()
    const texts = await Promise.all(answers)
    t.same([...new Set(texts.map((text) => text.slice(0, 15)))], ['HTTP/1.1 200 OK'])
    t.equal(texts.filter((text) => text.includes('"status":"completed"')).length, CALLERS)
  })
}
