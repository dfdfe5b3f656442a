/** The way to an agent, which can hold activations on their way there, or their answers on the way back. */
import { once } from 'node:events'
import { request as ask, createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

export type HeldLine = {
  /** What stands in the agent's place. */
  origin: string
  /** `there`: the agent does not see them. `back`: it does them, and nobody learns of it. Undefined ends it. */
  hold(way: 'there' | 'back' | undefined): void
  /** Activations held since `hold`. */
  held(): number
  close(): Promise<void>
}

/** `origin`: where the agent itself answers. */
export async function openHeldLine(origin: string): Promise<HeldLine> {
  let way: 'there' | 'back' | undefined
  let held = 0

  async function pass({ method, headers, url }: IncomingMessage, body: Buffer) {
    const there = ask(new URL(url ?? '/', origin), { method, headers })
    there.end(body)
    const [answer] = (await once(there, 'response')) as [IncomingMessage]
    return { answer, content: await buffer(answer) }
  }

  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    const isHeld = way !== undefined && body.includes('"activate_signal"')
    if (isHeld && way === 'there') {
      held += 1
      return
    }
    const { answer, content } = await pass(request, body)
    if (isHeld) {
      held += 1
      return
    }
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    response.end(content)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    hold(next) {
      way = next
      held = 0
    },
    held: () => held,
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
