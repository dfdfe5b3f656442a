/**
 * Runs the benches one after the other, each in a process of its own, and then prints every row once more: `node
 * dist/bench/run.js [name ...]`. Ends with 1 when a bench could not be run to its end; a missed bar is a finding.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { lineOf, type Row } from './report.js'

/** In the order of their length, the short ones first. */
const BENCHES = [
  'authz',
  'search',
  'hostile',
  'events',
  'events-chain',
  'forged-events',
  'discovery',
  'change',
  'feed',
  'while-merging',
  'console',
  'serving',
  'direct',
  'upstreams',
  'change-served',
  'restart',
  'activation',
  'replicas',
  'tests',
]

type Said = { row?: Row }

const asked = process.argv.slice(2)
const unknown = asked.filter((name) => !BENCHES.includes(name))
if (unknown.length > 0) throw new Error(`no bench: ${unknown.join(', ')}; there are ${BENCHES.join(', ')}`)

const results: { name: string; rows: Row[]; ended: number | null }[] = []
for (const name of BENCHES.filter((one) => asked.length === 0 || asked.includes(one))) {
  console.log(`\n== ${name}`)
  const rows: Row[] = []
  const bench = fork(fileURLToPath(new URL(`${name}.js`, import.meta.url)))
  bench.on('message', ({ row }: Said) => row && rows.push(row))
  const [ended] = (await once(bench, 'exit')) as [number | null]
  results.push({ name, rows, ended })
}

console.log(`\n== all rows, Node ${process.version}`)
for (const { name, rows, ended } of results) {
  for (const row of rows) console.log(lineOf(row))
  if (ended !== 0) console.log(`${name} did not run to its end`)
}
process.exitCode = results.every(({ ended }) => ended === 0) ? 0 : 1
