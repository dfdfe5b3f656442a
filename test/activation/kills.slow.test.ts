import { onEveryStorage } from '../store/support/storages.js'
import { killOverAndOver } from './support/kills.js'

const ROUNDS = 4 * Number(process.env.SOAK ?? 1)
const SEED = Number(process.env.SEED ?? 1)

onEveryStorage(
  'processes that are killed, and a database that stalls, neither lose an activation nor make two',
  async (t, storage) => {
    t.comment(`seed ${SEED}`)
    t.setTimeout(100_000 * ROUNDS)
    await t.resolves(killOverAndOver(t, storage, ROUNDS, SEED))
  },
)
