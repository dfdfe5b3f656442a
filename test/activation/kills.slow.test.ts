import { onEveryStorage } from '../store/support/storages.js'
import { killOverAndOver } from './support/kills.js'

const ROUNDS = 4
const SEED = 1 // `node dist/bench/activation-kills.js` takes another each time

onEveryStorage(
  'processes that are killed, and a database that stalls, neither lose an activation nor make two',
  async (t, storage) => {
    t.setTimeout(300_000)
    await t.resolves(killOverAndOver(t, storage, ROUNDS, SEED))
  },
)
