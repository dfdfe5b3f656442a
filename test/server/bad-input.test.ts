import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import fc from 'fast-check'
import { type Test, test } from 'tap'
import { proven } from '../support/proven.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const PATHS = ['/mcp', '/a2a'] as const

/** Good bodies that the fuzzer starts from. */
const SEEDS = {
  '/mcp': JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: {
      name: 'get_signals',
      arguments: {
        discovery_mode: 'wholesale',
        pagination: { max_results: 3 },
        filters: { max_cpm: 2 },
        context: { a: [1] },
      },
    },
  }),
  '/a2a': JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'SendMessage',
    params: {
      message: {
        messageId: 'm',
        role: 'ROLE_USER',
        parts: [{ data: { skill: 'get_signals', input: { discovery_mode: 'wholesale', max_results: 3 } } }],
      },
    },
  }),
}

/** A server, and a way to put bytes on it with keep-alive that tells only what matters: a protocol answer, soon. */
async function target(t: Test) {
  const { url, lines } = await startServer(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  t.teardown(() => agent.destroy())
  const put = (path: string, body: Uint8Array): Promise<{ status: number; text: string }> =>
    new Promise((resolve, reject) => {
      const headers = {
        'content-type': 'application/json',
        'content-length': body.byteLength,
        authorization: `Bearer ${BUYER_TOKEN}`,
      }
      const sent = request(url + path, { method: 'POST', agent, headers, timeout: 60_000 }, (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk) => {
          text += chunk
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      })
      sent.on('timeout', () => sent.destroy(new Error('no answer in a minute')))
      sent.on('error', reject)
      sent.end(body)
    })
  const isAlive = async () => (await fetch(`${url}/healthz`)).status === 200
  const noBugs = () => !lines.some((line) => line.includes('"level":50'))
  return { url, put, isAlive, noBugs, lines }
}

/** Whether the answer is one that a client of the protocol can read. */
function isProtocolAnswer({ status, text }: { status: number; text: string }): boolean {
  if (status === 202) return text === ''
  if (status >= 500) return false
  const parsed = JSON.parse(text)
  return [parsed].flat().every((one) => one.jsonrpc === '2.0' && ('result' in one || 'error' in one))
}

test('a mutated body gets a protocol answer: never a 500, a crash or a hang', async (t) => {
  const { put, isAlive, noBugs } = await target(t)
  const mutation = fc.record({
    path: fc.constantFrom(...PATHS),
    edits: fc.array(
      fc.record({
        at: fc.double({ min: 0, max: 1, noNaN: true }),
        cut: fc.nat(12),
        put: fc.oneof(
          fc.uint8Array({ maxLength: 6 }),
          fc
            .constantFrom(
              '{',
              '}',
              '[',
              ']',
              '"',
              ':',
              ',',
              '\\',
              'null',
              '1e999',
              '-',
              '\u0000',
              '"__proto__":{"x":1},',
              '\\ud800',
            )
            .map((text) => new TextEncoder().encode(text)),
        ),
      }),
      { minLength: 1, maxLength: 4 },
    ),
  })
  const property = fc.asyncProperty(mutation, async ({ path, edits }) => {
    let body = Buffer.from(SEEDS[path])
    for (const { at, cut, put: bytes } of edits) {
      const from = Math.floor(at * body.length)
      body = Buffer.concat([body.subarray(0, from), bytes, body.subarray(from + cut)])
    }
    return isProtocolAnswer(await put(path, body))
  })
  await proven(t, 120, property)
  t.ok(await isAlive())
  t.ok(noBugs(), 'no task threw')
})

test('any JSON as message, params or arguments gets a protocol answer', async (t) => {
  const { put, isAlive, noBugs } = await target(t)
  const keys = fc.constantFrom(
    'discovery_mode',
    'signal_refs',
    'filters',
    'pagination',
    'account',
    'context',
    '__proto__',
    'fields',
    'adcp_version',
  )
  const args = fc.oneof(fc.jsonValue(), fc.dictionary(keys, fc.jsonValue({ maxDepth: 3 })))
  const methods = fc.constantFrom(
    'tools/call',
    'tools/list',
    'initialize',
    'SendMessage',
    'message/send',
    'GetTask',
    'tasks/get',
    'ListTasks',
    'CancelTask',
    'tasks/cancel',
    'tasks/resubscribe',
    'SubscribeToTask',
    'CreateTaskPushNotificationConfig',
    'constructor',
    'toString',
  )
  const value = fc.oneof(
    fc.jsonValue(),
    fc.record({
      jsonrpc: fc.constant('2.0'),
      id: fc.constantFrom(1, 'a'),
      method: methods,
      params: fc.oneof(fc.jsonValue(), fc.dictionary(fc.string(), fc.jsonValue())),
    }),
    args.map((given) => ({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'get_signals', arguments: given },
    })),
    args.map((input) => ({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message: { messageId: 'm', parts: [{ data: { skill: 'get_signals', input } }] } },
    })),
  )
  const property = fc.asyncProperty(fc.constantFrom(...PATHS), value, async (path, body) => {
    const answer = await put(path, Buffer.from(JSON.stringify(body)))
    return answer.text.startsWith('data: ') || isProtocolAnswer(answer)
  })
  await proven(t, 120, property)
  t.ok(await isAlive())
  t.ok(noBugs(), 'no task threw')
})

test('too large, too deep, too much at once, and not UTF-8 are named', async (t) => {
  const { put, isAlive } = await target(t)
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  for (const path of PATHS) {
    t.equal((await put(path, Buffer.alloc(2 * 1024 * 1024, 0x20))).status, 413)
    const nested = await put(path, Buffer.from(deep))
    t.equal(nested.status, 400)
    t.match(nested.text, /nested more than 64 deep/)
    const many = await put(
      path,
      Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[${'0,'.repeat(25_000)}0]}}`),
    )
    t.equal(many.status, 400)
    t.match(many.text, /more than 25000 values/)
    const broken = await put(path, Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]))
    t.equal(broken.status, 400)
    t.equal(JSON.parse(broken.text).error.code, -32700)
    t.equal(JSON.parse((await put(path, Buffer.alloc(0))).text).error.code < 0, true)
  }
  const keys = Array.from({ length: 20_000 }, (_, n) => `"k${n}":${n}`).join(',')
  t.equal(
    (await put('/mcp', Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{${keys}}}`))).status,
    200,
  )
  t.ok(await isAlive())
})

/** A socket that collects what it receives. */
async function open(
  t: Test,
  url: string,
): Promise<{ socket: Socket; text: () => string; until: (pattern: RegExp) => Promise<void> }> {
  const { port, hostname } = new URL(url)
  const socket = connect(Number(port), hostname)
  t.teardown(() => socket.destroy())
  let text = ''
  let wake = () => {}
  socket.setEncoding('utf8')
  socket.on('data', (chunk) => {
    text += chunk
    wake()
  })
  socket.on('close', () => wake())
  socket.on('error', () => wake())
  await new Promise<void>((resolve) => socket.once('connect', resolve))
  const until = async (pattern: RegExp) => {
    while (!pattern.test(text)) {
      if (socket.destroyed) throw new Error(`closed after: ${text.slice(0, 200)}`)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  }
  return { socket, text: () => text, until }
}

function httpRequest(body: string, more = ''): string {
  return `POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${more}\r\n${body}`
}

test('pipelined requests are answered each, in order', async (t) => {
  const { url } = await target(t)
  const { socket, until, text } = await open(t, url)
  const bodies = Array.from({ length: 30 }, (_, n) => `{"jsonrpc":"2.0","id":"p${n}","method":"ping"}`)
  socket.write(bodies.map((body) => httpRequest(body)).join(''))
  await until(/p29/)
  const ids = [...text().matchAll(/"id":"p(\d+)"/g)].map((match) => Number(match[1]))
  t.same(
    ids,
    Array.from({ length: 30 }, (_, n) => n),
  )
})

test('a request that comes byte by byte is answered; one cut in half hurts nobody', async (t) => {
  const { url, isAlive } = await target(t)
  const slow = await open(t, url)
  const bytes = httpRequest('{"jsonrpc":"2.0","id":"slow","method":"ping"}')
  for (const byte of bytes) {
    slow.socket.write(byte)
    await new Promise(setImmediate)
  }
  await slow.until(/"id":"slow"/)
  for (let cut = 10; cut < bytes.length; cut += 25) {
    const half = await open(t, url)
    half.socket.end(bytes.slice(0, cut))
  }
  const reset = await open(t, url)
  reset.socket.write(bytes.slice(0, 100))
  reset.socket.resetAndDestroy()
  t.ok(await isAlive())
})

test('a client that closes its half of the connection still gets its answer', async (t) => {
  const { url } = await target(t)
  const { socket, until } = await open(t, url)
  socket.end(httpRequest('{"jsonrpc":"2.0","id":"half","method":"ping"}'))
  await until(/"id":"half"/)
  t.pass('answered')
})

test('malformed HTTP is 400, and the connection ends', async (t) => {
  const { url, isAlive } = await target(t)
  for (const bytes of [
    'GARBAGE\r\n\r\n',
    'POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
  ]) {
    const { socket, until } = await open(t, url)
    socket.write(bytes)
    await until(/^HTTP\/1\.1 400/)
  }
  t.ok(await isAlive())
})

test('a caller who hangs up in the middle of an answer hurts nobody', async (t) => {
  const { url, isAlive, noBugs } = await target(t)
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_signals","arguments":{"discovery_mode":"wholesale","pagination":{"max_results":100}}}}`
  for (let n = 0; n < 50; n++) {
    const { socket } = await open(t, url)
    socket.write(httpRequest(body, `Authorization: Bearer ${BUYER_TOKEN}\r\n`))
    if (n % 2) await new Promise(setImmediate)
    socket.resetAndDestroy()
  }
  t.ok(await isAlive())
  t.ok(noBugs())
})

const { userLimits } = process.report.getReport() as { userLimits: { open_files: { soft: unknown } } }
const MOST_FILES = Number(userLimits.open_files.soft)
/** Both ends of a thousand connections are in this process. */
const TOO_FEW_FILES =
  MOST_FILES < 3_000 && `a process may open ${MOST_FILES} files here: 3,000 are needed (ulimit -n)`

test('a thousand idle connections cost others nothing', { skip: TOO_FEW_FILES }, async (t) => {
  const { url, isAlive } = await target(t)
  const idle = await Promise.all(Array.from({ length: 1_000 }, () => open(t, url)))
  t.ok(await isAlive())
  for (const { socket } of idle) socket.destroy()
})
