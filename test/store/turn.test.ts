import { createTurn } from '../../src/store/turn.js'
import { createManualClock } from '../support/upstream-clock.js'
import { onEveryStorage } from './support/storages.js'

const HEARTBEAT_MS = 3_000

onEveryStorage(
  'a turn goes to a process that may have it, and away from one that no longer may',
  async (t, storage) => {
    const { clock, advance } = createManualClock()
    const { jobs } = await storage.open({ now: clock.now })
    const having = new Set<string>()
    const may = new Set<string>()
    const turns = ['old', 'new'].map((owner) =>
      createTurn({
        ...{ name: 'telling', jobs, clock, owner, mayHave: () => may.has(owner) },
        take() {
          t.equal(having.size, 0, 'nobody else has it')
          having.add(owner)
          return async () => void having.delete(owner)
        },
        onProblem: (problem) => t.fail(problem),
      }),
    )
    t.teardown(() => Promise.all(turns.map((turn) => turn.close())))
    const settled = async () => {
      for (const turn of turns) await turn.settled()
    }
    /** Until both have looked once more. */
    async function look(): Promise<void> {
      advance(HEARTBEAT_MS)
      await settled()
    }
    for (const turn of turns) turn.start()
    await settled()
    t.same([...having], [], 'nobody who may not')
    may.add('old')
    await look()
    t.same([...having], ['old'])
    may.add('new')
    await look()
    t.same([...having], ['old'], 'it stays where it may be')
    may.delete('old')
    await look()
    await look()
    t.same([...having], ['new'], 'it was given back, and no lease had to end')
  },
)
