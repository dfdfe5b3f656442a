import { setImmediate as nextTurn } from 'node:timers/promises'
import { createSignalHistory } from '../../src/operations/history.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { handleAt, type Snapshot } from '../../src/snapshot/snapshot.js'
import type { SignalChanges } from '../../src/store/records/activity.js'
import { judgeThat, listing, sliceOf } from '../feed/world.js'
import { onEveryStorage } from '../store/support/storages.js'

/** A generation in which the one signal costs so much. */
function priced(cpm: number): Snapshot {
  const option = { pricing_option_id: 'po', model: 'cpm' as const, cpm, currency: 'USD' }
  const rows = [listing('one', { pricing_options: [option] })]
  return buildSnapshot({ slices: [sliceOf('north', rows)], judge: judgeThat() })
}

onEveryStorage(
  'whoever sees a generation is told what changed with it, and waits for none that comes later',
  async (t, storage) => {
    const { signalChanges } = await storage.open()
    const history = createSignalHistory({ records: signalChanges, onTrouble: (message) => t.fail(message) })
    t.teardown(() => history.close())
    const generations = [1, 2, 3, 4].map(priced)
    const [first, second, third, fourth] = generations as [Snapshot, Snapshot, Snapshot, Snapshot]
    const told = async () =>
      (await history.of(handleAt(first, 0))).map((change) => (change as { after: { cpm: number } }).after.cpm)

    history.note(undefined, first, 1)
    t.same(await told(), [], 'the first generation is no change')
    history.note(first, second, 2)
    t.same(await told(), [2])
    history.note(second, third, 3)
    history.note(third, fourth, 4)
    t.equal((await told()).at(-1), 4)

    const writes: (() => void)[] = []
    const write = async () => {
      while (writes.length === 0) await nextTurn()
      writes.shift()?.()
    }
    const held: SignalChanges = {
      ...signalChanges,
      async note(changes) {
        await new Promise<void>((resolve) => writes.push(resolve))
        await signalChanges.note(changes)
      },
    }
    const slow = createSignalHistory({ records: held, onTrouble: (message) => t.fail(message) })
    let isTold = false
    slow.note(fourth, first, 5)
    while (writes.length === 0) await nextTurn()
    slow.note(first, second, 6)
    const asked = slow.of(handleAt(first, 0)).then((changes) => {
      isTold = true
      return changes
    })
    await write()
    while (writes.length === 0) await nextTurn()
    slow.note(second, third, 7)
    t.notOk(isTold, 'what waits to be compared was noted before the question')
    await write()
    t.match((await asked).at(-1), { after: { cpm: 2 } }, 'what is noted later is not waited for')
    await Promise.all([write(), slow.close()])
  },
)
