/**
 * Run as a child process. `receive`: the receivers of a thousand subscribers; counts what comes, and says so when it is asked.
 * `post PORT COUNT SECONDS`: what telling them would cost with nothing but a loop: so many posts to them, evenly over so long.
 */
import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'

const SOCKETS = 32
const BODY = JSON.stringify({ event: 'x'.repeat(1_000) })

function receive(): void {
  let events = 0
  const server = createServer((asked, response) => {
    asked.resume().on('end', () => {
      events += 1
      response.writeHead(200).end()
    })
  })
  server.listen(0, '127.0.0.1', () => process.send?.(server.address()))
  process.on('message', () => process.send?.(events))
}

async function postOne(agent: Agent, path: string, port: number): Promise<void> {
  const headers = { 'content-type': 'application/json', 'content-length': BODY.length }
  const posted = request({ agent, host: '127.0.0.1', port, path, method: 'POST', headers }).end(BODY)
  const [answer] = await once(posted, 'response')
  await once(answer.resume(), 'end')
}

async function post(port: number, count: number, seconds: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS })
  const startedAt = performance.now()
  const posted: Promise<void>[] = []
  while (posted.length < count) {
    const due = Math.min(count, (count * (performance.now() - startedAt)) / (seconds * 1_000))
    while (posted.length < due) posted.push(postOne(agent, `/${posted.length}`, port))
    await wait(1)
  }
  await Promise.all(posted)
  agent.destroy()
}

const [role, ...given] = process.argv.slice(2)
if (role === 'receive') receive()
else {
  const [port, count, seconds] = given.map(Number) as [number, number, number]
  await post(port, count, seconds)
}
