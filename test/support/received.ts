import type { Socket } from 'node:net'

/** All that a connection is sent until it ends, a byte a character; or why it broke. */
export function received(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    socket.setEncoding('latin1')
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', ({ message }) => resolve(message))
    socket.on('close', () => resolve(text))
  })
}
