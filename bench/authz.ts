/**
 * Authorization: how long a large provider file takes to read, what the serving thread notices of the largest file that is
 * legal, and how many verdicts a second there are. Bars: no stop of the serving thread beyond 50 ms; at least 1,000,000
 * verdicts/s.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createInspector, type Inspection, inspect } from '../src/authz/provider/inspector.js'
import { definitionOf } from '../src/authz/rules/provider-definition.js'
import { tableBytes } from '../src/authz/rules/tables.js'
import { type CompiledProvider, compileProvider, decide } from '../src/authz/rules/verdict.js'
import { heaviestFile } from './providers.js'
import { report } from './report.js'

const SIGNALS = 50_000
const ENTRIES = 500
const TAGS = 200
const VERDICTS = 500_000
const ROUNDS = 15

function document(): Uint8Array {
  const signals = Array.from({ length: SIGNALS }, (_, i) => ({
    id: `segment_${i}`,
    name: `Segment ${i}`,
    description: 'Households likely to buy a new car within the next six months',
    value_type: 'binary',
    tags: ['automotive', `tag_${i % TAGS}`],
    countries: ['US', 'CA'],
    consent_basis: ['consent'],
  }))
  const agents = Array.from({ length: ENTRIES }, (_, i) => ({
    url: `https://agent-${i % 100}.example/mcp`,
    authorized_for: 'segments',
    ...(i % 2
      ? { authorization_type: 'signal_tags', signal_tags: [`tag_${i % TAGS}`] }
      : {
          authorization_type: 'signal_ids',
          signal_ids: Array.from({ length: 50 }, (_, j) => `segment_${(i * 97 + j) % SIGNALS}`),
        }),
    ...(i % 5 === 0 && { effective_until: '2030-01-01T00:00:00Z', countries: ['US'] }),
  }))
  const json = new TextEncoder().encode(JSON.stringify({ signals, authorized_agents: agents }))
  const bytes = new Uint8Array(new SharedArrayBuffer(json.byteLength))
  bytes.set(json)
  return bytes
}

/** The best of several rounds: what the code costs when nothing else has the core. */
function best(run: () => void): number {
  const times = Array.from({ length: ROUNDS }, () => {
    const start = performance.now()
    run()
    return performance.now() - start
  })
  return Math.min(...times)
}

const bytes = document()
const now = Date.parse('2026-06-01T00:00:00Z')

function providerOf(inspection: Inspection, bytes: Uint8Array): CompiledProvider {
  if (inspection.kind !== 'document') throw new Error('the bench document cannot be read')
  const { digest, tables } = inspection
  const document = { url: 'https://p.example/', fetchedAt: now, digest, bytes, tables }
  return compileProvider({ domain: 'p.example', document, confirmedAt: now, expiresAt: now + 1 })
}

const compiled = providerOf(inspect(bytes), bytes)
const rules = compiled.rules
if (!rules) throw new Error('the bench document cannot be read')

// Every other question is about an agent that some entry grants the signal to.
const questions = Array.from({ length: SIGNALS }, (_, i) => {
  const signal = (i * 7919) % SIGNALS
  return {
    id: `segment_${signal}`,
    agent: `https://agent-${(signal + (i % 4 === 0 ? 1 : 0)) % 100}.example/mcp`,
  }
})
let authorized = 0
const perRound = best(() => {
  authorized = 0
  for (let i = 0; i < VERDICTS; i += 1) {
    const { id, agent } = questions[i % SIGNALS] as (typeof questions)[number]
    const verdict = decide(compiled, id, agent, now)
    if (verdict.outcome === 'authorized') authorized += 1
  }
})

const heavy = new TextEncoder().encode(heaviestFile())
const loop = monitorEventLoopDelay({ resolution: 1 })
const inspector = createInspector()
await inspector.examine(bytes)
loop.enable()
const heavyStart = performance.now()
const examined = await inspector.examine(heavy)
const first = decide(
  providerOf(examined.inspection, examined.bytes),
  's7',
  'https://agent-3.example/mcp',
  now,
)
const heavyMs = performance.now() - heavyStart
await new Promise((resolve) => setImmediate(resolve))
loop.disable()
await inspector.close()
const heavyTables = examined.inspection.kind === 'document' ? tableBytes(examined.inspection.tables) : 0

const line = (what: string, value: string) => console.log(`${what.padEnd(48)}${value.padStart(16)}`)
line('document', `${(bytes.byteLength / 1e6).toFixed(1)} MB`)
const parsing = best(() => JSON.parse(new TextDecoder().decode(bytes)))
line('JSON.parse alone', `${parsing.toFixed(0)} ms`)
line('read into tables (in its worker)', `${best(() => inspect(bytes)).toFixed(0)} ms`)
line('heaviest legal document', `${(heavy.byteLength / 1e6).toFixed(1)} MB`)
line('  from its bytes to the first verdict', `${heavyMs.toFixed(0)} ms, ${first.outcome}`)
line('  its tables', `${(heavyTables / 1e6).toFixed(1)} MB`)
line('of them authorized', `${((authorized / VERDICTS) * 100).toFixed(0)} %`)
line(
  'definitions a second',
  Math.round(
    (SIGNALS / best(() => questions.forEach(({ id }) => void definitionOf(rules, id)))) * 1000,
  ).toLocaleString('en-US'),
)
report({
  what: 'longest stop of the serving thread over the heaviest legal adagents.json',
  ...{ measured: loop.max / 1e6, unit: 'ms', bar: { atMost: 50 } },
})
report({ what: 'verdicts a second', measured: (VERDICTS / perRound) * 1_000, bar: { atLeast: 1_000_000 } })
