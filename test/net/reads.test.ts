import { createServer as createRaw } from 'node:net'
import { gzipSync } from 'node:zlib'
import { test } from 'tap'
import { startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'

const KiB = 1024
const SIZES = [1, 20, 64, 130, 511, 513, 3_000] // KiB: around the sizes at which memory is taken otherwise
const BOUNDS = { maxBytes: 10 * KiB * KiB }

/** Bytes that differ from those at every other place and of every other seed. */
const bytesOf = (seed: number, kib: number) =>
  Buffer.from(Array.from({ length: (kib * KiB) / 16 }, (_, at) => `${seed}:${at},`.padEnd(16, '.')).join(''))

test('answers that arrive together over many connections are each their own', async (t) => {
  const server = await startHttp((request, response) => {
    const { searchParams, pathname } = new URL(request.url ?? '', 'http://server')
    const body = bytesOf(Number(searchParams.get('seed')), Number(searchParams.get('kib')))
    if (pathname === '/gzip') response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(body))
    else if (pathname === '/announced')
      response.writeHead(200, { 'content-length': body.byteLength }).end(body)
    else {
      response.writeHead(200)
      for (let at = 0; at < body.byteLength; at += 30_000) response.write(body.subarray(at, at + 30_000))
      response.end()
    }
  })
  t.teardown(server.close)
  const { get } = openEgress(t, loopback)
  for (let round = 0; round < 2; round += 1) {
    const asked = ['announced', 'chunked', 'gzip'].flatMap((how) => SIZES.map((kib) => ({ how, kib })))
    const replies = await Promise.all(
      asked.map(({ how, kib }, seed) => get(`${server.url}/${how}?seed=${seed}&kib=${kib}`, BOUNDS)),
    )
    for (const [seed, { how, kib }] of asked.entries()) {
      const reply = replies[seed]
      t.ok(reply?.kind === 'reply' && bytesOf(seed, kib).equals(reply.body), `${how}, ${kib} KiB`)
    }
  }
})

test('a header section that comes in pieces, after a large answer on its connection, is read whole', async (t) => {
  const body = bytesOf(1, 100)
  const [first, ...rest] = [
    `HTTP/1.1 200 OK\r\ncontent-length: ${body.byteLength}\r\nx-a: ${'a'.repeat(3_000)}`,
    `bc\r\nx-b: ${'d'.repeat(3_000)}\r\n`,
    '\r\n',
  ] as const
  const server = createRaw((socket) => {
    socket.on('error', () => {})
    socket.on('data', () => {
      socket.write(first)
      const next = (at: number) => {
        if (at < rest.length) socket.write(rest[at] as string, () => setImmediate(next, at + 1))
        else socket.write(body)
      }
      setImmediate(next, 0)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { get } = openEgress(t, loopback)
  for (let at = 0; at < 5; at += 1) {
    const reply = await get(`http://127.0.0.1:${(server.address() as { port: number }).port}/`, BOUNDS)
    t.ok(reply.kind === 'reply' && body.equals(reply.body))
    t.equal(reply.kind === 'reply' && reply.headers['x-a'], `${'a'.repeat(3_000)}bc`)
    t.equal(reply.kind === 'reply' && reply.headers['x-b'], 'd'.repeat(3_000))
  }
})
