/** Run as a child process: the receivers of a thousand subscribers. They count what comes, and say so when they are asked. */
import { createServer } from 'node:http'

let events = 0
const server = createServer((asked, response) => {
  asked.resume().on('end', () => {
    events += 1
    response.writeHead(200).end()
  })
})
server.listen(0, '127.0.0.1', () => process.send?.(server.address()))
process.on('message', () => process.send?.(events))
