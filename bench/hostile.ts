/**
 * How long the thread that serves stands still over each hostile answer (test/hostile/support/corpus.ts), and what it
 * costs the process. Bar: 50 ms. `node dist/bench/hostile.js`
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createEgress } from '../src/net/egress.js'
import { createA2aAgent } from '../src/upstreams/agent/a2a.js'
import { createMcpAgent } from '../src/upstreams/agent/mcp.js'
import { createCollector } from '../src/upstreams/rows/new-slice.js'
import { corpusOf } from '../test/hostile/support/corpus.js'
import { ours } from './ours.js'
import { report } from './report.js'

const EVERY_MS = 5
const BAR_MS = 50
const TIMEOUT_MS = 30_000

/** Ms that this thread wanted to run and another process ran instead (Linux; 0 elsewhere). */
function delayedMs(): number {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

/** The longest stop of this thread while `task` runs, ms, without what other processes took of it. */
async function longestStop(task: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let [last, delayed] = [performance.now(), delayedMs()]
  const look = () => {
    const [now, delay] = [performance.now(), delayedMs()]
    longest = Math.max(longest, now - last - EVERY_MS - (delay - delayed))
    ;[last, delayed] = [now, delay]
  }
  const timer = setInterval(look, EVERY_MS)
  await task()
  await new Promise((resolve) => setTimeout(resolve, 2 * EVERY_MS))
  look()
  clearInterval(timer)
  return longest
}

const child = ours(
  spawn(process.execPath, [fileURLToPath(new URL('hostile-strangers.js', import.meta.url))], {
    stdio: ['ignore', 'pipe', 'inherit'],
  }),
)
const [line] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer]
const origin = line.toString().trim()
const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
const agentOf = (name: string, transport: 'mcp' | 'a2a') =>
  (transport === 'mcp' ? createMcpAgent : createA2aAgent)({
    send: egress.send,
    url: `${origin}/${name}/${transport}`,
    auth: { type: 'bearer', token: 'a-token-of-ours' },
  })

await agentOf('good', 'mcp').call('get_signals', {}, { timeoutMs: TIMEOUT_MS })
let worst = 0
for (const { name, transport, before } of corpusOf()) {
  const agent = agentOf(name, transport)
  let said = ''
  const task = async () => {
    const outcome = await agent.call(
      before ? 'get_adcp_capabilities' : 'get_signals',
      {},
      { timeoutMs: TIMEOUT_MS },
    )
    if (outcome.kind === 'answer') await createCollector().take(outcome.rows)
    said = outcome.kind === 'failed' ? outcome.reason : outcome.kind
  }
  await task() // what its first answer costs once is the compiler's
  const startedAt = performance.now()
  const stopMs = await longestStop(task)
  worst = Math.max(worst, stopMs)
  const tookMs = performance.now() - startedAt
  console.log(
    `${name.padEnd(34)} ${said.padEnd(16)} ${stopMs.toFixed(1).padStart(7)} ms stop, ${Math.round(tookMs)} ms in all`,
  )
}
const rss = Math.round(process.resourceUsage().maxRSS / 1_024)
console.log(`peak rss ${rss} MB`)
report({
  what: 'longest stop of the serving thread over hostile answers',
  ...{ measured: worst, unit: 'ms', bar: { atMost: BAR_MS } },
})
await egress.close()
child.kill()
process.exit()
