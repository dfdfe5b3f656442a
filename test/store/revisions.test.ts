/** Processes that run the newest configuration build the feed, those of each form of snapshots their own. */
import { test } from 'tap'
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
