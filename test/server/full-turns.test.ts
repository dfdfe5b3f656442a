/** Requests that arrive at once are answered in as many turns of the loop as they take, and callers take turns. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { type Test, test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import { requestEnvelope } from '../../src/adcp/task-schemas.js'
import type { Task } from '../../src/tasks/task.js'
import { BUYER_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'

const COUNT = 40
const EACH_MS = 3
const MOST_IN_TURN = 12 // the time is looked at before each fourth, and ten milliseconds are for as many

type Done = { caller: string; turn: number }

/** A task that takes some milliseconds, and notes who had it done in which turn. */
function spinning(t: Test, ms = EACH_MS) {
  const done: Done[] = []
  let turn = 0
  let next = setImmediate(function count() {
    turn += 1
    next = setImmediate(count)
  })
  t.teardown(() => clearImmediate(next))
  const task: Task = {
    ...{ name: 'spin', title: 'Spin', description: 'Spins.', mutating: false },
    request: Type.Object({ ...requestEnvelope }),
    handle(_input, { caller }) {
      for (const end = performance.now() + ms; performance.now() < end; );
      done.push({ caller: caller.id, turn })
      return { kind: 'answer', message: 'Done.', fields: {} }
    },
  }
  return { done, task, turns: () => turn }
}

/** A connection, and the bytes of so many requests for the task on it. */
async function connected(t: Test, url: string, token: string) {
  const { hostname, port, host } = new URL(url)
  const socket = connect(Number(port), hostname)
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  const params = { name: 'spin', arguments: {} }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  const head = `POST /mcp HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n`
  const request = `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  return { socket, ask: (count: number) => socket.write(request.repeat(count)) }
}

test('what arrives at once is answered in many turns, between which others are answered', async (t) => {
  const { done, task } = spinning(t)
  const { url } = await startServer(t, { tasks: [task] })
  const many = await connected(t, url, BUYER_TOKEN)
  const few = await connected(t, url, OTHER_TOKEN)
  many.ask(COUNT)
  few.ask(1)
  let text = ''
  many.socket.setEncoding('latin1').on('data', (part: string) => {
    text += part
  })
  while (text.split('HTTP/1.1 200 OK').length <= COUNT) await once(many.socket, 'data')
  const inTurn = new Map<number, number>()
  for (const { turn } of done) inTurn.set(turn, (inTurn.get(turn) ?? 0) + 1)
  t.ok(Math.max(...inTurn.values()) <= MOST_IN_TURN, `in a turn: ${[...inTurn.values()]}`)
  const place = done.findIndex(({ caller }) => caller === 'other')
  t.ok(place >= 0 && place < COUNT / 2, `the other was served after ${place} of ${COUNT}`)
})

test('nothing is done for a caller who has gone before its turn', async (t) => {
  const { done, task, turns } = spinning(t)
  const { url } = await startServer(t, { tasks: [task] })
  const gone = await connected(t, url, BUYER_TOKEN)
  gone.ask(COUNT)
  while (done.length === 0) await new Promise(setImmediate)
  gone.socket.destroy()
  const left = turns() + 2 * COUNT
  while (turns() < left) await new Promise(setImmediate)
  t.ok(done.length < COUNT, `${done.length} of ${COUNT} were done`)
})

test('a caller with a thousand requests waiting is told to come again, and nobody else is', async (t) => {
  const { task } = spinning(t, EACH_MS / 10)
  const { url } = await startServer(t, { tasks: [task] })
  const many = await connected(t, url, BUYER_TOKEN)
  const few = await connected(t, url, OTHER_TOKEN)
  let text = ''
  many.socket.setEncoding('latin1').on('data', (part: string) => {
    text += part
  })
  many.ask(1_500)
  few.ask(1)
  const [answer] = await once(few.socket, 'data')
  t.match(String(answer), /^HTTP\/1\.1 200 OK/)
  while (!text.includes('HTTP/1.1 429')) await once(many.socket, 'data')
  t.match(text, /retry-after: 1\r\n/i)
})
