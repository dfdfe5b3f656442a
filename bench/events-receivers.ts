/**
 * Run as a child process: the receivers of a thousand subscribers. They count what comes; told how many will have come in all, they
 * say so when they have.
 */
import { createServer } from 'node:http'

let [events, expected] = [0, Number.POSITIVE_INFINITY]

function sayWhenAll(): void {
  if (events < expected) return
  expected = Number.POSITIVE_INFINITY
  process.send?.(events)
}

const server = createServer((asked, response) => {
  asked.resume().on('end', () => {
    events += 1
    response.writeHead(200).end()
    sayWhenAll()
  })
})
server.listen(0, '127.0.0.1', () => process.send?.(server.address()))
process.on('message', (inAll: number) => {
  expected = inAll
  sayWhenAll()
})
