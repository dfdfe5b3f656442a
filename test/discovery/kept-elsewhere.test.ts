/** An answer that was given while the storage was away: its further pages at other processes. */
import { test } from 'tap'
import { createKept, keepRelevance, shownRelevance } from '../../src/briefs/kept.js'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { createLearned, type FoundRow } from '../../src/store/records/found.js'
import type { Handover } from '../../src/store/replicas/handover.js'
import { createManualClock } from '../support/upstream-clock.js'

const KEEP_MS = 15 * 60_000
const missing = [{ scope: 'signals', description: 'south is absent.' } as const]
const answer = { keys: Uint32Array.of(1, 2, 3, 4), beside: [], missing }

test('its cursors say that it may come, and it comes when the storage is back', async (t) => {
  const time = createManualClock()
  const kept = new Map<string, Uint8Array>()
  let isAway = true
  const shared: Pick<Handover, 'keep' | 'find'> = {
    async keep(items) {
      if (isAway) throw new StorageUnavailable('down')
      for (const { name, bytes } of items) kept.set(name, bytes as Uint8Array)
    },
    async find(_kind, _owner, name) {
      const bytes = kept.get(name)
      return bytes && { name, about: '', bytes }
    },
  }
  const troubles: string[] = []
  const options = { clock: time.clock, secret: 'the same', shared }
  const one = createKept({ ...options, onTrouble: (message) => void troubles.push(message) })
  const other = createKept({ ...options, onTrouble: (message) => t.fail(message) })
  t.teardown(one.close)
  const find = (cursor: string) => other.find(cursor, 'binding', 'buyer')

  const name = await one.keep('buyer', answer)
  const cursor = one.cursor(name, 7, 'binding')
  t.match(await one.find(cursor, 'binding', 'buyer'), { kind: 'found', from: 7 })
  t.same(await find(cursor), { kind: 'untold' })
  t.equal(await other.find(cursor, 'another', 'buyer'), undefined)
  time.advance(1_000)
  await new Promise(setImmediate)
  t.same(await find(cursor), { kind: 'untold' }, 'the storage is still away')

  isAway = false
  time.advance(1_000)
  await new Promise(setImmediate)
  t.match(await find(cursor), { kind: 'found', from: 7, answer })
  t.equal(troubles.length, 1, 'it is said once')

  kept.clear()
  time.advance(KEEP_MS)
  t.equal(await find(cursor), undefined, 'its time is over')
  const told = one.cursor(await one.keep('buyer', answer), 7, 'binding')
  kept.clear()
  t.equal(await find(told), undefined, 'what was told and is gone will not come')
})

test('what an answer found beside the feed is stored when the storage is back, with no other answer', async (t) => {
  const time = createManualClock()
  const stored: FoundRow[] = []
  let isAway = true
  const troubles: string[] = []
  const learned = createLearned({
    found: {
      async put(rows) {
        if (isAway) throw new StorageUnavailable('down')
        stored.push(...rows)
      },
      read: async () => [],
    },
    ...{ isShared: true, clock: time.clock },
    onTrouble: (message) => void troubles.push(message),
  })
  t.teardown(learned.close)
  const agentUrl = 'https://agent.example/mcp'
  const row = { ...{ handle: 'sig', scope: '', segment: 's' }, agentUrl, listing: '{}' }
  await learned.learn([row])
  for (const isStillAway of [true, false, false]) {
    isAway = isStillAway
    time.advance(1_000)
    await new Promise(setImmediate)
  }
  t.same(stored, [row], 'once')
  t.equal(troubles.length, 1)
})

test('each signal keeps how well it fits and what of the question it has, not what another has', (t) => {
  const of = new Map([
    [7, { fit: 1, match: 0b11 }],
    [3, { fit: 0.504, match: 0b10 }],
  ])
  const kept = keepRelevance({ labels: ['one', 'two'], of, first: 2 }, [7, 3, 5])
  t.same(
    [0, 1, 2].map((place) => shownRelevance(kept, place, `sig_${place}`)),
    [
      { signal_agent_segment_id: 'sig_0', fit: 1, has: ['one', 'two'], lacks: [] },
      { signal_agent_segment_id: 'sig_1', fit: 0.5, has: ['two'], lacks: ['one'] },
      { signal_agent_segment_id: 'sig_2', has: [], lacks: ['one', 'two'] },
    ],
  )
  t.end()
})
