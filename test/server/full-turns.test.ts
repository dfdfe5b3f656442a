/** Requests that arrive at once are answered in as many turns of the loop as they take, and callers take turns. */
import { connect, type Socket } from 'node:net'
import { type Test, test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import { requestEnvelope } from '../../src/adcp/task-schemas.js'
import type { Task } from '../../src/tasks/task.js'
import { BUYER_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'

const COUNT = 40
const EACH_MS = 3
const QUEUE = 100 // connections that certainly fit in the system's queue
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

type Serving = Pick<Awaited<ReturnType<typeof startServer>>, 'app' | 'url'>

/** So many connections of a caller, each for one request: those of one connection begin one after another. */
async function connected(t: Test, { app, url }: Serving, token: string, count = 1) {
  const { hostname, port, host } = new URL(url)
  let accepted = 0 // one in a turn
  app.server.on('connection', () => {
    accepted += 1
  })
  const sockets: Socket[] = []
  t.teardown(close)
  while (sockets.length < count) {
    sockets.push(connect(Number(port), hostname))
    if (sockets.length % QUEUE > 0 && sockets.length < count) continue
    while (accepted < sockets.length) await new Promise(setImmediate)
  }
  let text = ''
  for (const socket of sockets) {
    socket.setEncoding('latin1').on('data', (part: string) => {
      text += part
    })
  }
  const params = { name: 'spin', arguments: {} }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  const head = `POST /mcp HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n`
  const request = `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  function close() {
    for (const socket of sockets) socket.destroy()
  }
  return {
    ask: () => sockets.forEach((socket) => void socket.write(request)),
    close,
    /** Resolves with all answers so far, once so many have this status. */
    answered: async (status: number, times: number) => {
      while (text.split(`HTTP/1.1 ${status}`).length <= times) await new Promise(setImmediate)
      return text
    },
  }
}

test('what arrives at once is answered in many turns, between which others are answered', async (t) => {
  const { done, task } = spinning(t)
  const serving = await startServer(t, { tasks: [task] })
  const many = await connected(t, serving, BUYER_TOKEN, COUNT)
  const few = await connected(t, serving, OTHER_TOKEN)
  many.ask()
  few.ask()
  await Promise.all([many.answered(200, COUNT), few.answered(200, 1)])
  const inTurn = new Map<number, number>()
  for (const { turn } of done) inTurn.set(turn, (inTurn.get(turn) ?? 0) + 1)
  t.ok(Math.max(...inTurn.values()) <= MOST_IN_TURN, `in a turn: ${[...inTurn.values()]}`)
  const place = done.findIndex(({ caller }) => caller === 'other')
  t.ok(place >= 0 && place < COUNT / 2, `the other was served after ${place} of ${COUNT}`)
})

test('nothing is done for a caller who has gone before its turn', async (t) => {
  const { done, task, turns } = spinning(t)
  const serving = await startServer(t, { tasks: [task] })
  const gone = await connected(t, serving, BUYER_TOKEN, COUNT)
  gone.ask()
  while (done.length === 0) await new Promise(setImmediate)
  gone.close()
  const left = turns() + 2 * COUNT
  while (turns() < left) await new Promise(setImmediate)
  t.ok(done.length < COUNT, `${done.length} of ${COUNT} were done`)
})

const { userLimits } = process.report.getReport() as { userLimits: { open_files: { soft: unknown } } }
/** Both ends of the connections are in this process. */
const TOO_FEW_FILES =
  Number(userLimits.open_files.soft) < 4_000 && 'a process may open fewer than 4,000 files'

test('a caller with a thousand requests waiting is told to come again, and nobody else is', {
  skip: TOO_FEW_FILES,
}, async (t) => {
  const { task } = spinning(t, EACH_MS / 10)
  const serving = await startServer(t, { tasks: [task] })
  const many = await connected(t, serving, BUYER_TOKEN, 1_500)
  const few = await connected(t, serving, OTHER_TOKEN)
  many.ask()
  few.ask()
  await few.answered(200, 1)
  t.match(await many.answered(429, 1), /retry-after: 1\r\n/i)
})
