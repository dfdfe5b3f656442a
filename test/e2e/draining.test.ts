/** Told to stop, a process first says so, then closes its door, and still finishes what it has begun. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type Test, test } from 'tap'
import { startCommand } from '../support/command.js'
import { until } from '../support/until.js'

const LONG = '10m' // longer than any test: what happens before it ends is seen in any case

async function serving(t: Test, drain: string, environment: Record<string, string> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-draining-'))
  const file = join(folder, 'tributary.json')
  const config = {
    listen: { port: 0, drain },
    callers: { anonymous: 'metadata' },
    storage: { url: `file:${join(folder, 'data')}` },
  }
  await writeFile(file, JSON.stringify(config))
  const { process, printed, finished } = startCommand(['serve', '--config', file], environment)
  t.teardown(async () => {
    process.kill('SIGKILL')
    await finished
    await rm(folder, { recursive: true, force: true })
  })
  const [url] = await printed(/http:\/\/127\.0\.0\.1:\d+/)
  /** What /readyz says on a connection of its own; undefined when there is none to be had. */
  const ready = async () => {
    const answer = await fetch(`${url}/readyz`, { headers: { connection: 'close' } }).catch(() => undefined)
    return answer && { status: answer.status, body: (await answer.json()) as { status: string } }
  }
  await until(ready, (answer) => answer?.status === 200)
  return { process, finished, url: url as string, ready }
}

const CALL = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'get_signals', arguments: { discovery_mode: 'wholesale' } },
})

function post(url: string, headers: Record<string, string> = {}): ClientRequest {
  return request(`${url}/mcp`, {
    method: 'POST',
    agent: false,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'content-length': CALL.length,
      ...headers,
    },
  })
}

function answered(asked: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => asked.once('response', resolve).once('error', reject))
}

test('/readyz says 503 as soon as it is told to stop, while new requests are still answered, and SIGINT then ends it at once', async (t) => {
  const { process, finished, url, ready } = await serving(t, LONG)
  process.kill('SIGTERM')
  const told = await until(ready, (answer) => answer?.status !== 200)
  t.match(told, { status: 503, body: { status: 'stopping' } }, 'not a closed door')
  const asked = post(url)
  asked.end(CALL)
  const answer = await answered(asked)
  t.equal(answer.statusCode, 200)
  t.match(await text(answer), /"status":"completed"/)
  process.kill('SIGINT')
  await finished
  t.equal(process.signalCode, 'SIGINT')
})

test('SIGTERM after SIGINT ends it at once', async (t) => {
  const { process, finished, ready } = await serving(t, LONG)
  process.kill('SIGINT')
  await until(ready, (answer) => answer?.status !== 200)
  process.kill('SIGTERM')
  await finished
  t.equal(process.signalCode, 'SIGTERM')
})

test('after the delay the door closes, what is in flight ends, and so does the process', async (t) => {
  const { process, finished, url, ready } = await serving(t, '100ms')
  const asked = post(url, { expect: '100-continue' })
  const isTaken = new Promise((resolve, reject) => asked.once('continue', resolve).once('error', reject))
  asked.flushHeaders()
  await isTaken // the server has begun with it, and waits for the body
  process.kill('SIGTERM')
  await until(ready, (answer) => answer === undefined)
  t.equal(process.exitCode, null, 'it waits for what is in flight')
  const answer = answered(asked)
  asked.end(CALL)
  t.equal((await answer).statusCode, 200)
  t.match(await text(await answer), /"status":"completed"/)
  t.equal((await finished).code, 0)
})

/** Fails at SIGUSR2 where nothing catches it, with a secret in its words, and again with another. */
const FAULTS = [
  ['an exception', "setImmediate(() => { throw new Error('Bearer planted-secret-1') })"],
  ['a rejection', "Promise.reject(new Error('Bearer planted-secret-1'))"],
] as const

for (const [what, code] of FAULTS) {
  test(`${what} that nothing catches is told in one line, and ends the process in order`, async (t) => {
    const fault = `process.on('SIGUSR2', () => { ${code}; setImmediate(() => { throw new Error('again') }) })`
    const { process, finished, url, ready } = await serving(t, LONG, {
      NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(fault)}`,
    })
    const asked = post(url, { expect: '100-continue' })
    const isTaken = new Promise((resolve, reject) => asked.once('continue', resolve).once('error', reject))
    asked.flushHeaders()
    await isTaken
    process.kill('SIGUSR2')
    await until(ready, (answer) => answer === undefined)
    const answer = answered(asked)
    asked.end(CALL)
    t.match(await text(await answer), /"status":"completed"/, 'what is in flight is finished')
    const { code: exit, err } = await finished
    t.equal(exit, 1)
    const told = err.split('\n').filter((line) => /"level":60/.test(line))
    t.equal(told.length, 1)
    t.match(JSON.parse(told[0] ?? '{}'), { msg: /nothing caught/, err: { type: 'Error', stack: /.*/ } })
    t.notMatch(err, 'planted-secret')
  })
}
