/**
 * Conformance: the protocol's public storyboards, its fuzzer and the 0.3 client, over both transports, against a
 * Tributary that is started for it. One line a storyboard; exit code 1 when a step fails that exceptions.js does not list.
 */
import { runLegacyClient } from './legacy-client.js'
import { KEYS, startTributary } from './server.js'
import { runFuzzer, runStoryboards } from './storyboards.js'

const tributary = await startTributary()
let unexpected = 0

async function run(part) {
  const result = await part
  unexpected += result.unexpected
  for (const line of result.lines) console.log(line)
}

try {
  for (const protocol of ['mcp', 'a2a']) {
    const url = `${tributary.url}/${protocol}`
    await run(runStoryboards(url, protocol, KEYS[protocol]))
    await run(runFuzzer(url, protocol, KEYS[protocol], KEYS.other))
  }
  await run(runLegacyClient(tributary.url, KEYS.a2a))
} finally {
  await tributary.close()
}
console.log(unexpected === 0 ? 'Conformance holds.' : `${unexpected} unexpected failures.`)
process.exitCode = unexpected === 0 ? 0 : 1
