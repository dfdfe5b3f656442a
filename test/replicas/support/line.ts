/** The line between replicas and a server: each replica, known by its address, can be cut off, or hang, without a word. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type LineState = 'open' | 'cut' | 'hung'

type Pair = { from: string; near: Socket; far: Socket }

/** To a port on loopback. */
export async function startLine(target: number) {
  const states = new Map<string, LineState>()
  const pairs = new Set<Pair>()
  const stateOf = (from: string): LineState => states.get(from) ?? 'open'

  function hold({ near, far }: Pair, isHung: boolean): void {
    for (const socket of [near, far]) {
      if (isHung) socket.pause()
      else socket.resume()
    }
  }

  const server = createServer((near) => {
    const from = near.remoteAddress ?? ''
    near.on('error', () => {})
    if (stateOf(from) === 'cut') return void near.destroy()
    const far = connect(target, '127.0.0.1')
    const pair = { from, near, far }
    pairs.add(pair)
    far.on('error', () => {})
    near.on('data', (bytes) => far.write(bytes))
    far.on('data', (bytes) => near.write(bytes))
    const end = () => {
      near.destroy()
      far.destroy()
      pairs.delete(pair)
    }
    near.on('close', end)
    far.on('close', end)
    hold(pair, stateOf(from) === 'hung')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')

  return {
    port: (server.address() as AddressInfo).port,
    /** `cut`: what is open is closed, and nothing new comes through. `hung`: nothing comes through, and nobody is told. */
    set(from: string, state: LineState): void {
      states.set(from, state)
      for (const pair of [...pairs]) {
        if (pair.from !== from) continue
        if (state === 'cut') pair.near.destroy()
        else hold(pair, state === 'hung')
      }
    },
    async close(): Promise<void> {
      server.close()
      for (const { near } of pairs) near.destroy()
      await once(server, 'close')
    },
  }
}

export type Line = Awaited<ReturnType<typeof startLine>>
