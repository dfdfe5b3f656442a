/**
 * Two builds of the product side by side, driven from outside: the same configuration, the same agents and the same
 * requests for both, in turns (docs/performance.md). `node dist/bench/beside.js --before FOLDER [--after FOLDER]
 * [--only PART] [--rounds N] [--signals N] [--json]`. The folders are built checkouts; `after` is this one unless named.
 * Not one of `run.ts`: it needs another checkout. Linux only: it reads /proc. Ends with 1 when something is worse
 * or a part did not run to its end.
 */

import { givenOptions, numberOf, refuse } from '../test/support/given.js'
import type { Bench } from './beside/bench.js'
import { compareFeed } from './beside/feed.js'
import { createLedger, tableOf } from './beside/ledger.js'
import { compareMarket } from './beside/market.js'
import { programIn } from './beside/program.js'
import { compareStarts } from './beside/starts.js'
import { compareStrangers } from './beside/strangers.js'

const PARTS = {
  starts: compareStarts,
  strangers: compareStrangers,
  market: compareMarket,
  feed: compareFeed,
}
const { values: given } = givenOptions({
  options: {
    before: { type: 'string' },
    after: { type: 'string', default: '.' },
    only: { type: 'string', default: '' },
    rounds: { type: 'string', default: '3' },
    signals: { type: 'string', default: '200000' },
    json: { type: 'boolean', default: false },
  },
})
if (!given.before) refuse('--before FOLDER is needed, a built checkout of the other commit')
const parts = Object.entries(PARTS).filter(([name]) => name.includes(given.only))
if (parts.length === 0) refuse(`no part: ${given.only}; there are ${Object.keys(PARTS).join(', ')}`)
const built = (folder: string) =>
  programIn(folder).catch((error: Error) => refuse(`${folder} is no built checkout: ${error.message}`))
const bench: Bench = {
  ledger: createLedger(console.error),
  programs: { before: await built(given.before), after: await built(given.after) },
  rounds: numberOf(given.rounds, '--rounds'),
  signals: numberOf(given.signals, '--signals'),
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
for (const [name, compare] of parts) {
  const since = performance.now()
  await compare(bench).catch((error: unknown) => {
    console.error(`${name} did not run to its end:`, error)
    process.exitCode = 1
  })
  console.error(`${name}: ${Math.round((performance.now() - since) / 1_000)} s`)
}
const rows = bench.ledger.compared()
console.log(given.json ? JSON.stringify(rows, null, 2) : tableOf(rows))
process.exit(rows.some(({ verdict }) => verdict === 'worse') ? 1 : process.exitCode)
