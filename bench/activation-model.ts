/**
 * Thousands of runs of the model of activation (test/activation/support/model.ts) on both databases, or on the one named.
 * `node dist/bench/activation-model.js [runs] [seed] [sqlite|postgres]`.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { openStore } from '../src/store/store.js'
import { commandsOfOneRun, startModelGround } from '../test/activation/support/model.js'
import { postgresBinaries, startPostgres } from '../test/store/support/postgres.js'
import { givenNumber } from '../test/support/given.js'

const RUNS = givenNumber(0, 1_000)
const SEED = givenNumber(1, Date.now() % 2 ** 31)
const ONLY = process.argv[4]
const COMMANDS = 30
const TOLD_EVERY = 100

async function soak(name: string, url: string, isShared: boolean): Promise<void> {
  const open = (now: () => number) => openStore({ url, now, onProblem: () => {} })
  const corpus = await startModelGround({ open, isShared })
  const startedAt = Date.now()
  let runs = 0
  const property = fc.asyncProperty(commandsOfOneRun(COMMANDS), async (commands) => {
    await corpus.run(commands)
    runs += 1
    if (runs % TOLD_EVERY !== 0) return
    console.log(`${name}: ${runs} runs, ${((1_000 * runs) / (Date.now() - startedAt)).toFixed(1)} a second`)
  })
  console.log(`${name}: ${RUNS} runs, seed ${SEED}`)
  try {
    await fc.assert(property, { seed: SEED, numRuns: RUNS, interruptAfterTimeLimit: 3_600_000 })
  } finally {
    await corpus.close()
  }
}

if (ONLY !== 'postgres') {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-model-'))
  try {
    await soak('SQLite', `file:${folder}`, false)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
const binaries = postgresBinaries()
if (ONLY !== 'sqlite' && binaries) {
  const server = await startPostgres(binaries)
  try {
    await soak('PostgreSQL', server.url, true)
  } finally {
    await server.remove()
  }
}
