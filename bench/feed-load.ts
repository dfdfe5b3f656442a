/**
 * Run as a child process: asks a url at a steady rate, and says `warm` once its own code is compiled; then for some seconds, or
 * until a message comes, and reports the latencies since in ms.
 */
import { Agent, get } from 'node:http'

const [port, seconds] = process.argv.slice(2)
const EVERY_MS = 2
const WARM_MS = 1_000 // before, the slowest pages are those that its own code delays
const agent = new Agent({ keepAlive: true, maxSockets: 8 })
const latencies: number[] = []
let waiting = 0

function ask(): void {
  const started = performance.now()
  waiting += 1
  get({ port, host: '127.0.0.1', agent }, (reply) => {
    reply.resume().on('end', () => {
      latencies.push(performance.now() - started)
      waiting -= 1
    })
  })
}

let ending = Number.POSITIVE_INFINITY
setTimeout(() => {
  latencies.length = 0
  ending = performance.now() + Number(seconds) * 1_000
  process.send?.('warm')
}, WARM_MS)
process.on('message', () => {
  ending = 0
})
const timer = setInterval(() => {
  if (performance.now() < ending) return ask()
  if (waiting > 0) return
  clearInterval(timer)
  agent.destroy()
  latencies.sort((a, b) => a - b)
  const at = (share: number) => latencies[Math.floor(latencies.length * share)] as number
  const measured = { p50: at(0.5), p99: at(0.99), requests: latencies.length, latencies }
  process.send?.(measured, () => process.disconnect?.()) // before all of it is sent, disconnecting would cut it off
}, EVERY_MS)
