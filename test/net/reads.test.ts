import { createServer as createRaw } from 'node:net'
import { gzipSync } from 'node:zlib'
import { type Test, test } from 'tap'
import type { Reply } from '../../src/net/send.js'
import { startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'

const KiB = 1024
const SIZES = [1, 20, 64, 130, 511, 513, 3_000] // KiB: around the sizes at which memory is taken otherwise
const BOUNDS = { maxBytes: 10 * KiB * KiB }

/** Bytes that differ from those at every other place and of every other seed. */
function bytesOf(seed: number, kib: number): Buffer {
  const bytes = new Uint32Array((kib * KiB) / 4)
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = Math.imul(at + 1, 0x9e3779b1) ^ seed
  return Buffer.from(bytes.buffer)
}

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

/** A server that writes `parts` for each request, each when the one before has been read: two turns of the loop later. */
async function writing(t: Test, parts: readonly (string | Buffer)[]) {
  const server = createRaw((socket) => {
    socket.on('error', () => {})
    socket.setNoDelay(true)
    const next = (at: number) => {
      if (at < parts.length)
        socket.write(parts[at] as Buffer, () => setImmediate(() => setImmediate(next, at + 1)))
    }
    socket.on('data', () => next(0))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { get } = openEgress(t, loopback)
  return () => get(`http://127.0.0.1:${(server.address() as { port: number }).port}/`, BOUNDS)
}

const BODY = bytesOf(1, 100)
const LENGTH = `content-length: ${BODY.byteLength}\r\n`
const OK = `HTTP/1.1 200 OK\r\n${LENGTH}`

for (const [what, first] of [
  ['comes in pieces', OK],
  [
    'comes behind interim answers',
    `HTTP/1.1 103 Early Hints\r\nlink: ${'l'.repeat(3_000)}\r\n\r\n`.repeat(10) + OK,
  ],
  ['has five thousand short lines', `${OK}${'c:\r\n'.repeat(5_000)}`],
] as const) {
  test(`a header section that ${what}, after a large answer on its connection, is read whole`, async (t) => {
    const begun = `${first}x-a: ${'a'.repeat(3_000)}`
    const rest = `bc\r\nx-b: ${'d'.repeat(3_000)}\r\n\r\n`
    const get = await writing(t, [begun, Buffer.concat([Buffer.from(rest), BODY])])
    for (let at = 0; at < 3; at += 1) {
      const reply = await get()
      t.ok(reply.kind === 'reply' && BODY.equals(reply.body))
      const { headers } = reply as Reply
      t.equal(headers['content-length'], String(BODY.byteLength))
      t.equal(headers['x-a'], `${'a'.repeat(3_000)}bc`)
      t.equal(headers['x-b'], 'd'.repeat(3_000))
    }
  })
}

test('what stands behind a body, or beside its bytes, is no part of it', async (t) => {
  const chunks = Array.from({ length: 10 }, (_, at) => BODY.subarray(at * 10_240, (at + 1) * 10_240))
  const extension = `;note="${'n'.repeat(5_000)}"`
  const [trailer, end] = [`x-sum: ${'s'.repeat(9_000)}`, `${'s'.repeat(3_000)}\r\n\r\n`]
  const chunked = [
    ...chunks.flatMap((chunk) => [`2800${extension}\r\n`, chunk, '\r\n']),
    `0${extension}\r\n${trailer}`,
  ]
  const whole = Buffer.concat(chunked.map((part) => Buffer.from(part)))
  const get = await writing(t, [
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n',
    whole.subarray(0, 65_537),
    whole.subarray(65_537),
    end,
  ])
  for (let at = 0; at < 3; at += 1) {
    const reply = await get()
    t.ok(reply.kind === 'reply' && BODY.equals(reply.body))
  }
})

test('an answer that nobody asked for answers nothing', async (t) => {
  const evil = Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`)
  const get = await writing(t, [Buffer.concat([Buffer.from(`${OK}\r\n`), BODY, evil])])
  for (let at = 0; at < 3; at += 1) {
    const reply = await get()
    t.ok(reply.kind === 'reply' && BODY.equals(reply.body))
  }
})

test('interim answers without end are given up, for they count as no bytes', async (t) => {
  const early = 'HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n'
  const few = await writing(t, [early.repeat(20), `${OK}\r\n`, BODY])
  t.match(await few(), { kind: 'reply' })
  const many = await writing(t, Array<string>(100).fill(early))
  t.match(await many(), { kind: 'failed', reason: 'too_large', message: /interim/ })
})
