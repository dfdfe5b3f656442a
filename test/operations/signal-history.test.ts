import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createSignalHistory } from '../../src/operations/signal-history.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { handleAt, type Snapshot } from '../../src/snapshot/snapshot.js'
import type { SignalChanges } from '../../src/store/records/activity.js'
import { judgeThat, listing, sliceOf } from '../feed/world.js'
import { onEveryStorage } from '../store/support/storages.js'
import { until } from '../support/until.js'
import { createManualClock } from '../support/upstream-clock.js'

/** A generation in which the one signal costs so much. */
function priced(cpm: number): Snapshot {
  const option = { pricing_option_id: 'po', model: 'cpm' as const, cpm, currency: 'USD' }
  const rows = [listing('one', { pricing_options: [option] })]
  return buildSnapshot({ slices: [sliceOf('north', rows)], judge: judgeThat() })
}

const nobodyLeaves = new AbortController().signal

onEveryStorage('what changed with a generation is told once it is kept', async (t, storage) => {
  const { signalChanges } = await storage.open()
  const generations = [1, 2, 3, 4].map(priced)
  const [first, second, third, fourth] = generations as [Snapshot, Snapshot, Snapshot, Snapshot]
  const writes: (() => void)[] = []
  const held: SignalChanges = {
    ...signalChanges,
    async note(changes) {
      await new Promise<void>((resolve) => writes.push(resolve))
      await signalChanges.note(changes)
    },
  }
  const history = createSignalHistory({
    ...{ records: held, clock: systemClock },
    onTrouble: (message) => t.fail(message),
  })
  const told = async () => {
    const changes = await history.of(handleAt(first, 0), nobodyLeaves)
    return changes?.map((change) => (change as { after: { cpm: number } }).after.cpm)
  }
  const begun = () =>
    until(
      () => writes.length,
      (length) => length === 1,
    )
  const written = async () => {
    const before = history.keptTimes()
    await begun()
    writes.shift()?.()
    await until(history.keptTimes, (times) => times > before)
  }

  history.note(undefined, first, 1)
  t.same(await told(), [], 'the first generation is no change')
  history.note(first, second, 2)
  await begun()
  t.same(await told(), [], 'nobody waits for what is being written')
  t.equal(history.keptTimes(), 0)
  history.note(second, third, 3)
  history.note(third, fourth, 4)
  await written()
  t.same(await told(), [2])
  await written()
  t.same(await told(), [2, 4], 'generations that come meanwhile are one change')
  t.equal(history.keptTimes(), 2)
  await history.close()
})

test('a storage that is silent, and a caller that leaves, are not waited for', async (t) => {
  const { clock, advance } = createManualClock()
  const records: SignalChanges = {
    note: async () => {},
    of: () => new Promise(() => {}), // as of a database that says nothing
  }
  const history = createSignalHistory({ records, clock, onTrouble: (message) => t.fail(message) })
  const asked = history.of('sig', nobodyLeaves)
  advance(5_000)
  t.equal(await asked, undefined)
  const leaving = new AbortController()
  const left = history.of('sig', leaving.signal)
  leaving.abort()
  t.equal(await left, undefined)
})
