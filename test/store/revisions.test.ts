/** Processes that run the newest configuration build the feed, those of each form of snapshots their own. */
import { test } from 'tap'
import { createRevisions } from '../../src/store/replicas/revisions.js'
import { type Hear, UNSAID } from '../../src/upstreams/rows/storage.js'
import { createManualClock } from '../support/upstream-clock.js'
import { becomes, joined } from './support/builders.js'
import { NO_POSTGRES, shared } from './support/storages.js'

test('an older configuration does not build while a newer one is run', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const old = await joined(t, storage, 'old', 'first')
  await becomes({ old }, 'old')
  const fresh = await joined(t, storage, 'fresh', 'second')
  await becomes({ old, fresh }, 'fresh')
})

test('each form of snapshots has a builder, and its newest configuration is its own', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const [one, other] = await Promise.all([
    joined(t, storage, 'one', 'first', 1),
    joined(t, storage, 'other', 'second', 2),
  ])
  await becomes({ one }, 'one')
  await becomes({ other }, 'other')
})

type Test = { teardown(task: () => unknown): void }

/** Process `one` of some, alone with what it is made to hear. */
function hearing(t: Test, members: readonly string[]) {
  const { clock } = createManualClock()
  let listener: Hear = () => {}
  const revisions = createRevisions({
    sharing: {
      tell: async () => true,
      hear(_prefix, each) {
        listener = each
      },
    },
    ...{ clock, self: 'one', members: () => members, revision: () => 'first', form: 1, onChange() {} },
  })
  t.teardown(revisions.close)
  const hear: Hear = (...said) => listener(...said)
  return { revisions, hear }
}

test('what a process of another release says in other words keeps nobody from building', (t) => {
  const { revisions, hear } = hearing(t, ['one', 'other'])
  for (const value of ['first', null, { revision: 'second' }]) hear('configuration/other', value, 0, 1)
  revisions.start()
  t.same(revisions.newest(), ['one'])
  t.same([...revisions.forms()], [1, UNSAID], 'its snapshots are left alone')
  hear('configuration/other', { revision: 'second', order: 7, form: 1 }, 0, 1)
  t.same(revisions.newest(), ['other'])
  t.end()
})

test('whoever runs the newest configuration runs it, whichever process took it up last', (t) => {
  const { revisions, hear } = hearing(t, ['one', 'other', 'third'])
  revisions.start()
  hear('configuration/third', { revision: 'second', order: 7, form: 1 }, 0, 1)
  t.notOk(revisions.isNewest())
  hear('configuration/other', { revision: 'first', order: 8, form: 1 }, 0, 2)
  t.ok(revisions.isNewest(), 'the other has gone back to the file that runs here')
  t.end()
})

test('each says again and again what it runs: a storage that was put back has lost it', async (t) => {
  const { clock, advance } = createManualClock()
  const told: unknown[] = []
  let changes = 0
  let hear: Hear = () => {}
  const revisions = createRevisions({
    sharing: {
      async tell(_name, value) {
        told.push(value)
        return true
      },
      hear(_prefix, listener) {
        hear = listener
      },
    },
    ...{ clock, self: 'one', members: () => ['one', 'other'], revision: () => 'first', form: 1 },
    onChange() {
      changes += 1
    },
  })
  t.teardown(revisions.close)
  revisions.start()
  await new Promise(setImmediate) // it has told
  advance(60_000)
  t.equal(told.length, 2, 'within a minute')
  t.same(told[0], told[1])
  changes = 0
  for (const form of [1, 1, 2]) hear('configuration/other', { revision: 'second', order: 7, form }, 0, 1)
  hear('configuration/other', { revision: 'second', order: 8, form: 2 }, 0, 1)
  t.equal(changes, 3, 'and nobody looks who does what for a word that is known')
})
