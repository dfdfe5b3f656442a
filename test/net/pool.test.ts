import { test } from 'tap'
import { createReads } from '../../src/net/body.js'
import { createConnector } from '../../src/net/egress.js'
import { startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'

type Test = { teardown(task: () => unknown): void }

/** A server that answers a little late, and counts the connections made to it. */
async function counting(t: Test) {
  let connections = 0
  const { server, url, close } = await startHttp((request, response) => {
    const streams = request.url?.endsWith('?stream')
    response.writeHead(200, { 'content-type': streams ? 'text/event-stream' : 'text/plain' })
    if (streams) response.write('data: enough\n\n')
    setTimeout(() => response.end('done'), 2)
  })
  server.on('connection', () => {
    connections += 1
  })
  t.teardown(close)
  return { url, connections: () => connections }
}

test('connections are kept for the requests to come', async (t) => {
  const { url, connections } = await counting(t)
  const { get } = openEgress(t, loopback)
  for (let at = 0; at < 20; at++) await get(url)
  t.ok(connections() <= 2, `${connections()} connections for 20 requests`)
})

test('a stream that ends soon after its reader had enough leaves its connection to the next', async (t) => {
  const { url, connections } = await counting(t)
  const { get } = openEgress(t, loopback)
  for (let at = 0; at < 20; at++) await get(`${url}?stream`, { enough: () => () => true })
  t.ok(
    connections() <= 10,
    `${connections()} connections for 20 streams: the next one may come before the end`,
  )
})

test('one origin never holds more than 32 connections, and no warning is printed', async (t) => {
  const warnings: string[] = []
  const listen = (warning: Error) => warnings.push(warning.message)
  process.on('warning', listen)
  t.teardown(() => process.off('warning', listen))
  const { url, connections } = await counting(t)
  const { get } = openEgress(t, loopback)
  const replies = await Promise.all(Array.from({ length: 100 }, () => get(url)))
  t.ok(replies.every(({ kind }) => kind === 'reply'))
  t.equal(connections(), 32)
  t.same(warnings, [])
})

test('nothing is connected to any more once everything was closed', async (t) => {
  const { url, connections } = await counting(t)
  const { hostname, port } = new URL(url)
  const connect = createConnector({ signal: AbortSignal.abort(), onread: createReads() })
  const outcome = await new Promise<unknown>((resolve) => {
    connect({ hostname, port, protocol: 'http:' }, (error, socket) => resolve(error ?? socket))
  })
  t.ok(outcome instanceof Error)
  const { get } = openEgress(t, loopback)
  await get(url) // its connection comes after whatever was begun before
  t.equal(connections(), 1)
})
