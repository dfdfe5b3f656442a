/**
 * Ports that nobody else is given while this process lives: for a server that ends in the middle of a test, where others
 * listen at its port again, or count on it that nobody does. One from port 0 goes to whoever asks the system next.
 */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below those that systems give away on their own. */
const FIRST_PORT = 20_000
const PORTS = 12_000
let next = process.pid

/** Whether no other process has reserved it: whoever has, holds the UDP port of the same number. */
async function isReserved(port: number): Promise<boolean> {
  const mark = createSocket('udp4').unref()
  try {
    await once(mark.bind({ port, address: '127.0.0.1', exclusive: true }), 'listening')
    return true
  } catch {
    mark.close()
    return false
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}

export async function reservedPort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + (next % PORTS)
    next += 1
    if ((await isReserved(port)) && (await isFree(port))) return port
  }
}
