import type { ServerResponse } from 'node:http'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { test } from 'tap'
import { createBodyReceiver } from '../../src/net/body.js'
import { nextOwnPortion } from '../../src/process/portion-turns.js'
import { startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'

type Test = { teardown(task: () => unknown): void }

async function serving(t: Test, serve: (response: ServerResponse) => void) {
  const server = await startHttp((_, response) => serve(response))
  t.teardown(server.close)
  const { get } = openEgress(t, loopback)
  return (more: Parameters<typeof get>[1] = {}) => get(server.url, more)
}

/** Writes `chunk` again and again until the other side is gone. */
function forever(response: ServerResponse, chunk: string, everyMs: number): void {
  const timer = setInterval(() => response.write(chunk), everyMs)
  response.on('close', () => clearInterval(timer))
}

test('a compressed answer is read, and counted as what it unpacks to', async (t) => {
  const bomb = gzipSync(Buffer.alloc(50_000_000))
  t.ok(bomb.byteLength < 100_000, 'its wire bytes alone would pass the cap')
  for (const [encoding, bytes] of [
    ['gzip', bomb],
    ['x-gzip', bomb],
    ['br', brotliCompressSync(Buffer.alloc(5_000_000))],
    ['deflate', deflateSync(Buffer.alloc(5_000_000))],
  ] as const) {
    const get = await serving(t, (response) => {
      response.writeHead(200, { 'content-encoding': encoding }).end(bytes)
    })
    t.match(await get(), { kind: 'failed', reason: 'too_large' }, encoding)
  }
  for (const [encoding, bytes] of [
    ['gzip', gzipSync('hello')],
    ['br', brotliCompressSync('hello')],
  ] as const) {
    const small = await serving(t, (response) => {
      response.writeHead(200, { 'content-encoding': encoding }).end(bytes)
    })
    const reply = await small()
    t.equal(reply.kind === 'reply' && Buffer.from(reply.body).toString(), 'hello')
  }
})

test('an encoding nobody asked for, or a broken one, is a broken body', async (t) => {
  for (const [encoding, body] of [
    ['zstd', 'not compressed'],
    ['gzip', 'not compressed'],
    ['gzip, gzip', gzipSync('compressed once')],
  ] as const) {
    const get = await serving(t, (response) => {
      response.writeHead(200, { 'content-encoding': encoding }).end(body)
    })
    t.match(await get(), { kind: 'failed', reason: 'broken_body' }, encoding)
  }
})

test('200 MB of JSON are cut at the cap', async (t) => {
  let written = 0
  const megabyte = `"${'x'.repeat(1_000_000)}",`
  const get = await serving(t, (response) => {
    const more = () => {
      while (written < 200_000_000 && response.write(megabyte)) written += megabyte.length
      written += megabyte.length
    }
    response.on('drain', more)
    more()
  })
  t.match(await get({ maxBytes: 5_000_000 }), { kind: 'failed', reason: 'too_large' })
  t.ok(written < 100_000_000, `${written} bytes were written`)
})

test('a body that dribbles for ever is ended by total time', async (t) => {
  const get = await serving(t, (response) => forever(response, ' ', 5))
  t.match(await get({ timeoutMs: 150 }), { kind: 'failed', reason: 'timeout' })
})

test('headers that never come are ended by total time', async (t) => {
  const get = await serving(t, () => {})
  t.match(await get({ timeoutMs: 100 }), { kind: 'failed', reason: 'timeout' })
})

test('an endless event stream is ended by its reader, and otherwise by time', async (t) => {
  let closed = false
  const get = await serving(t, (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.on('close', () => {
      closed = true
    })
    forever(response, 'data: tick\n\n', 5)
  })
  const reply = await get({
    enough: ({ headers }) =>
      headers['content-type'] === 'text/event-stream' ? (chunk) => chunk.length > 0 : undefined,
  })
  t.match(reply, { kind: 'reply', status: 200 })
  t.equal(reply.kind === 'reply' && reply.body.byteLength, 0, 'who reads the chunks has them')
  t.match(await get({ timeoutMs: 100 }), { kind: 'failed', reason: 'timeout' })
  const end = Date.now() + 60_000
  while (!closed && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 5))
  t.ok(closed, 'the stream is hung up on')
})

test('who wants nothing of a body has the reply with its header section', async (t) => {
  for (const encoding of ['identity', 'gzip', 'utf-8', 'none', 'gzip, br']) {
    const get = await serving(t, (response) => {
      response.writeHead(503, { 'content-length': '200000', 'content-encoding': encoding }).flushHeaders()
    })
    const reply = await get({ timeoutMs: 120_000, enough: () => () => true })
    t.match(reply, { kind: 'reply', status: 503 }, encoding)
  }
  const whole = await serving(t, (response) => void response.writeHead(200).end('x'.repeat(200_000)))
  t.match(
    await whole({ enough: () => () => true }),
    { kind: 'reply', status: 200 },
    'nor does its length count',
  )
})

test('a connection that breaks in the middle of a body is a broken body', async (t) => {
  const get = await serving(t, (response) => {
    response.writeHead(200, { 'content-length': '1000' })
    response.write('half', () => response.destroy())
  })
  t.match(await get(), { kind: 'failed', reason: 'broken_body' })
})

test('a refused connection and what is not HTTP have words of their own', async (t) => {
  const { get } = openEgress(t, loopback)
  t.match(await get('http://127.0.0.1:1/'), { kind: 'failed', reason: 'unreachable' })
  for (const said of [
    'garbage garbage',
    'HTTP/1.1 000 Nothing\r\ncontent-length: 0',
    'HTTP/1.1 101 Switching Protocols',
    'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3',
  ]) {
    const get = await serving(t, (response) => void response.socket?.end(`${said}\r\n\r\n`))
    t.match(await get(), { kind: 'failed', reason: 'not_http', message: 'the answer is not HTTP' }, said)
  }
})

test('a caller that gives up ends the request', async (t) => {
  const get = await serving(t, () => {})
  const controller = new AbortController()
  const pending = get({ signal: controller.signal })
  controller.abort()
  t.match(await pending, { kind: 'failed', reason: 'aborted' })
  t.match(await get({ signal: controller.signal }), { kind: 'failed', reason: 'aborted' })
})

test('a large body is put together in portions, so that nobody else waits for all of it', async (t) => {
  const chunks = Array.from({ length: 64 }, (_, at) => Buffer.alloc(256 * 1024, at))
  let turns = 0
  const count = () => {
    turns += 1
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  const reader = createBodyReceiver('', {
    maxBytes: 64 * 1024 ** 2,
    begin: () => ({ grew() {}, end() {} }),
    stop() {},
    goOn() {},
  })
  for (const chunk of chunks) reader.take(chunk)
  const endedAt = turns
  reader.end()
  const read = await reader.outcome
  clearImmediate(counting)
  t.ok(turns - endedAt >= 10, `${turns - endedAt} turns of the loop between its end and its buffer`)
  t.ok(read.kind === 'body' && read.body.equals(Buffer.concat(chunks)), 'no byte is lost')
})

test('a large body that somebody waits for is put together ahead of work of our own', async (t) => {
  const works = 50
  let begun = 0
  let isOver = false
  const ownWork = async () => {
    for (; !isOver; begun += 1) await nextOwnPortion()
  }
  const busy = Array.from({ length: works }, ownWork)
  const server = await startHttp((_, response) => void response.end(Buffer.alloc(8 * 1024 ** 2)))
  t.teardown(server.close)
  const { get } = openEgress(t, loopback)
  const takes = async (isAwaited: boolean) => {
    const before = begun
    const reply = await get(server.url, { maxBytes: 10 * 1024 ** 2, isAwaited })
    t.equal(reply.kind, 'reply')
    return begun - before
  }
  const [awaited, own] = [await takes(true), await takes(false)]
  isOver = true
  await Promise.all(busy)
  t.ok(own > 4 * works, `${own} portions of others while it was put together in its turn`)
  t.ok(awaited < own / 2, `${awaited} while somebody waited`)
})

test('a reader that takes long gets its chunks in pieces, a few between two turns, and every byte', async (t) => {
  const body = Buffer.from(Array.from({ length: 10_000 }, (_, at) => `${at * 7_919},`).join(''))
  let turns = 0
  const count = () => {
    turns += 1
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  for (const [encoding, sent, end] of [
    ['', body, 'end'],
    ['gzip', gzipSync(body), 'end'],
    ['', body, 'broke'],
  ] as const) {
    const byTurn = new Map<number, number>()
    const pieces: Buffer[] = []
    let goesOn: () => void = () => {}
    const reader = createBodyReceiver(encoding, {
      maxBytes: 1024 * 1024,
      begin: () => ({ grew() {}, end() {} }),
      stop() {},
      goOn: () => goesOn(),
      enough: (piece) => {
        byTurn.set(turns, (byTurn.get(turns) ?? 0) + piece.byteLength)
        pieces.push(Buffer.from(piece))
        for (const until = performance.now() + 2; performance.now() < until; );
        return false
      },
    })
    for (let at = 0; at < sent.byteLength; at += 65_536) {
      const chunk = Buffer.from(sent.subarray(at, at + 65_536))
      const more = new Promise<void>((resolve) => {
        goesOn = resolve
      })
      const isReady = reader.take(chunk)
      chunk.fill('?') // whoever reads from a socket uses its memory again
      if (!isReady && at + 65_536 < sent.byteLength) await more
    }
    if (end === 'end') reader.end()
    else reader.broke('the connection is gone')
    const read = await reader.outcome
    const most = Math.max(...byTurn.values())
    t.ok(most <= 16_384, `${encoding}: ${most} bytes at most in one turn`)
    t.equal(read.kind, end === 'end' ? 'body' : 'broken')
    t.ok(Buffer.concat(pieces).equals(body), 'no byte is lost, also of what came before its connection broke')
  }
  clearImmediate(counting)
})
