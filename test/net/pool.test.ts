import { getEventListeners, once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { test } from 'tap'
import { createReads } from '../../src/net/body.js'
import { createConnector } from '../../src/net/connector.js'
import { startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'
import { until } from '../support/upstream-world.js'

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
  // The next one may come before the end, and on a busy machine the end too late.
  let streams = 0
  for (; streams < 400 && streams - connections() < 10; streams += 1) {
    await get(`${url}?stream`, { enough: () => () => true })
  }
  t.ok(streams - connections() >= 10, `${connections()} connections for ${streams} streams`)
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

/** A server that says nothing until it is told to, with all its places at one way out taken. */
async function full(t: Test) {
  let connections = 0
  const silent: ServerResponse[] = []
  const { server, url, close } = await startHttp((_, response) => void silent.push(response))
  server.on('connection', () => {
    connections += 1
  })
  t.teardown(close)
  const { egress, get } = openEgress(t, loopback)
  const first = Array.from({ length: 32 }, () => get(url))
  await until('all places are taken', () => silent.length === 32)
  return {
    ...{ egress, silent, first, connections: () => connections },
    get: (more: Parameters<typeof get>[1] = {}) => get(url, more),
  }
}

test('who waited for a connection and gave up is given none', async (t) => {
  const { get, silent, first, connections } = await full(t)
  const controller = new AbortController()
  const leaving = Array.from({ length: 8 }, () => get({ signal: controller.signal }))
  const late = get({ timeoutMs: 20 })
  const last = get()
  controller.abort()
  for (const outcome of await Promise.all(leaving)) t.match(outcome, { kind: 'failed', reason: 'aborted' })
  t.match(await late, { kind: 'failed', reason: 'timeout' })
  silent[0]?.end('done')
  await until('the one that still waits is sent', () => silent.length === 33)
  for (const response of silent) response.end('done')
  for (const outcome of await Promise.all([...first, last])) t.match(outcome, { kind: 'reply' })
  t.equal(silent.length, 33)
  t.equal(connections(), 32)
})

test('who waits for a connection follows the policy in force once there is one', async (t) => {
  const { egress, get, silent, first } = await full(t)
  const policy = { allowHttp: false, allowNetworks: loopback.allowNetworks, hosts: {} }
  const waiting = [get(), get(), get()]
  egress.reconfigure(policy)
  silent[0]?.end('done')
  await until('the next is sent', () => silent.length === 33)
  egress.reconfigure({ ...policy, allowNetworks: [] })
  for (const response of silent) response.end('done')
  for (const outcome of await Promise.all(first)) t.match(outcome, { kind: 'reply' })
  t.match(await Promise.all(waiting), [
    { kind: 'reply' },
    { kind: 'failed', reason: 'refused' },
    { kind: 'failed', reason: 'refused' },
  ])
})

test('closing ends those that wait for a connection', async (t) => {
  const { egress, get, first } = await full(t)
  const waiting = [get(), get()]
  await egress.close()
  for (const outcome of await Promise.all([...first, ...waiting])) t.match(outcome, { kind: 'failed' })
})

test('of a connection that is over, or was never made, nothing is kept; those that are open end with their way out', async (t) => {
  const { url, connections } = await counting(t)
  const { hostname, port } = new URL(url)
  const lifetime = new AbortController()
  const { signal } = lifetime
  const connect = createConnector({ signal, onread: createReads() })
  const open = (to: string) =>
    new Promise<Error | Socket>((resolve) => {
      connect({ hostname, port: to, protocol: 'http:' }, (error, socket) =>
        resolve(error ?? (socket as Socket)),
      )
    })
  for (let at = 0; at < 20; at += 1) {
    const socket = (await open(port)) as Socket
    const closed = once(socket, 'close')
    socket.destroy()
    await closed
    t.ok((await open('1')) instanceof Error)
  }
  t.equal(getEventListeners(signal, 'abort').length, 1)
  const last = (await open(port)) as Socket
  const ended = once(last, 'error')
  lifetime.abort()
  t.ok((await ended)[0] instanceof Error)
  t.equal(connections(), 21)
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
