/**
 * Conformance: the protocol's public storyboards, its fuzzer, checks of our own and the official clients, over both
 * transports, against a Tributary that is started for it; and hosts of language models over MCP. Prints a line a row, writes docs/conformance.md, and exits with
 * 1 when the run does not hold (judge.js) or the page was out of date.
 */
import { SCHEMAS_ABSENT } from '../dist/test/support/adcp-schema.js'
import { runClients } from './clients/run.js'
import { EXCEPTIONS } from './exceptions.js'
import { runFuzzer } from './fuzzer.js'
import { judge } from './judge.js'
import { runLifecycles } from './lifecycles/run.js'
import { runModelHosts } from './model-hosts.js'
import { count } from './outcome.js'
import { writePage } from './page.js'
import { KEYS, startTributary } from './server.js'
import { runSignedRequests } from './signed-requests.js'
import { runStoryboards } from './storyboards.js'
import { runTestController } from './test-controller.js'

const TRANSPORTS = ['mcp', 'a2a']

/** What has to have run: a part that gives nothing is no success. */
const EXPECTED = [
  ...['storyboards', 'fuzzer', 'lifecycles', 'clients'].flatMap((part) =>
    TRANSPORTS.map((transport) => ({ part, transport })),
  ),
  { part: 'hosts', transport: 'mcp' },
]

async function runAgainst({ url }) {
  const rows = []
  for (const transport of TRANSPORTS) {
    const key = KEYS[transport]
    rows.push(...(await runStoryboards(url, transport, key)))
    rows.push(...(await runFuzzer(url, transport, key, KEYS.other)))
    rows.push(...(await runLifecycles(url, transport, { own: key, other: KEYS.other })))
  }
  rows.push(...(await runModelHosts(url, KEYS.mcp)))
  return rows
}

function line(row) {
  const counts = ['passed', 'failed', 'skipped']
    .map((outcome) => `${count(row, outcome)} ${outcome}`)
    .join(', ')
  return `${row.transport}  ${row.release.padEnd(14)}${row.name.padEnd(58)}${counts}`
}

const tributary = await startTributary()
let rows
try {
  rows = await runAgainst(tributary)
} finally {
  await tributary.close()
}
rows.push(...(await runSignedRequests()), ...(await runTestController(TRANSPORTS)), ...(await runClients()))

for (const row of rows) console.log(line(row))
if (SCHEMAS_ABSENT) console.log(`skipped: ${SCHEMAS_ABSENT}`)
const faults = judge(rows, EXCEPTIONS, EXPECTED)
for (const fault of faults) console.log(`FAULT ${fault}`)
const isStale = writePage(rows, EXCEPTIONS)
if (isStale) console.log('docs/conformance.md was out of date and has been written.')
console.log(faults.length === 0 && !isStale ? 'Conformance holds.' : 'Conformance does not hold.')
process.exit(faults.length === 0 && !isStale ? 0 : 1) // clients keep connections open
