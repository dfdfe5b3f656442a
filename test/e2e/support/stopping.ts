/** A whole process that is told to stop, or fails, while it has a request in flight. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { startCommand } from '../../support/command.js'
import { until } from '../../support/until.js'

export const LONG = '10m' // longer than any test: what happens before it ends is seen in any case

export async function serving(t: Test, drain: string, environment: Record<string, string> = {}) {
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

export const CALL = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'get_signals', arguments: { discovery_mode: 'wholesale' } },
})

export function post(url: string, headers: Record<string, string> = {}): ClientRequest {
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

export function answered(asked: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => asked.once('response', resolve).once('error', reject))
}

/** `code` fails at SIGUSR2 where nothing catches it, with a secret in its words; then something fails again with another. */
export async function assertFaultIsTold(t: Test, code: string): Promise<void> {
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
}
