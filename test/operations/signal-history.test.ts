import { createSignalHistory } from '../../src/operations/history.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { handleAt, type Snapshot } from '../../src/snapshot/snapshot.js'
import { judgeThat, listing, sliceOf } from '../feed/world.js'
import { onEveryStorage } from '../store/support/storages.js'

const MANY = 50

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

    let isTold = false
    const asked = told().then(() => {
      isTold = true
    })
    let noted = 0
    for (; !isTold && noted < MANY; noted += 1) {
      history.note(noted % 2 ? third : fourth, noted % 2 ? fourth : third, 5 + noted)
      await signalChanges.of('', 1) // so long a question takes
    }
    await asked
    t.ok(noted < MANY, `${noted} generations came before it was told`)
  },
)
