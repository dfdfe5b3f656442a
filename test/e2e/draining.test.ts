/** Told to stop, a process first says so, then closes its door, and still finishes what it has begun. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'tap'
import { startCommand } from '../support/command.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { until } from '../support/until.js'
import { answered, assertFaultIsTold, CALL, LONG, post, serving } from './support/stopping.js'

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

test('an exception that nothing catches is told in one line, and ends the process in order', (t) =>
  assertFaultIsTold(t, "setImmediate(() => { throw new Error('Bearer planted-secret-1') })"))

/** Tells itself to stop while its own code is loaded: when it first reads a file of the program. */
const STOPPED_EARLY = `
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
const { readFileSync } = fs
fs.readFileSync = (file, ...rest) => {
  if (/(program[.]cjs|package[.]json)$/.test(String(file))) process.kill(process.pid, process.env.EARLY)
  return readFileSync(file, ...rest)
}
syncBuiltinESMExports()`

test('a signal while the code is loaded ends it with 0, before it has opened anything', async (t) => {
  const environment = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(STOPPED_EARLY)}` }
  const file = join(await temporaryFolder(t), 'tributary.json')
  await writeFile(file, '{ "listen": { "port": 0 }, "callers": { "anonymous": "metadata" } }')
  const serve = (EARLY: string) =>
    startCommand(['serve', '--config', file], { ...environment, EARLY }).finished
  for (const signal of ['SIGTERM', 'SIGINT']) {
    t.same(await serve(signal), { code: 0, out: '', err: '' }, signal)
  }
})
