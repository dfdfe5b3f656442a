/** A plain load balancer: each connection goes to the next replica, without affinity and without asking how it is. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** `ports`: of the replicas that run now. */
export async function startBalancer(ports: () => readonly number[]) {
  const open = new Set<Socket>()
  let turn = 0

  /** A connection that is refused goes to the next one; one that is taken stays where it is. */
  function forward(near: Socket, left: readonly number[]): void {
    const [port, ...others] = left
    if (port === undefined) return void near.destroy()
    const far = connect(port, '127.0.0.1')
    let isTaken = false
    far.once('connect', () => {
      isTaken = true
      near.pipe(far).pipe(near)
    })
    far.on('error', () => {
      if (isTaken || near.destroyed) near.destroy()
      else forward(near, others)
    })
    far.on('close', () => isTaken && near.destroy())
    near.on('close', () => far.destroy())
  }

  const server = createServer((near) => {
    open.add(near)
    near.on('error', () => {}).on('close', () => open.delete(near))
    const all = ports()
    const first = turn++ % Math.max(1, all.length)
    forward(near, [...all.slice(first), ...all.slice(0, first)])
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close(): Promise<void> {
      server.close()
      for (const socket of open) socket.destroy()
      await once(server, 'close')
    },
  }
}
