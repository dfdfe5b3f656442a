/** Of several processes on one database, only one of which subscribes, each can take what the upstream sends. */
import { type Test, test } from 'tap'
import { createRegistrations } from '../../src/events/registrations.js'
import { systemClock } from '../../src/net/clock.js'
import { createBoard } from '../../src/store/replicas/notes.js'
import { NO_POSTGRES, type Storage, shared } from '../store/support/storages.js'
import { until } from '../support/upstream-world.js'
import { listening } from './support/listeners.js'

async function processes(t: Test, storage: Storage) {
  const far = listening(t)
  return {
    ...far,
    async process(known: Parameters<typeof far.start>[0]) {
      const { replicas } = await storage.open()
      if (!replicas) throw new Error('a shared storage has replicas')
      const { notes, listen } = replicas
      const board = createBoard({ notes, listen, clock: systemClock, onProblem: t.fail })
      const registrations = createRegistrations({ sharing: board, clock: far.clock })
      await board.start()
      t.teardown(board.close)
      return far.start(known, registrations)
    },
  }
}

test('an event is taken by a process that neither reads nor subscribed, also by one that comes later', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const { process, said, outcomes, answer, pass, send } = await processes(t, storage)
  const reader = await process('declares')
  const other = await process('unknown')
  await until('it is asked', () => said.length === 1)
  await answer()
  await until('all know the account', async () => {
    const { status } = await send(other.listener, 'a', undefined, { account_id: 'of another' })
    return status === 403
  })
  const later = await process('unknown')
  for (const { listener } of [reader, other, later]) {
    outcomes.length = 0
    t.equal((await send(listener, 'a', undefined, { notification_type: 'signal.updated' })).status, 200)
    t.same(outcomes, ['heard'])
  }
  reader.become('left')
  await pass(1_000)
  await until('it is unsubscribed from', () => said.length === 2)
  t.equal((await send(other.listener, 'a')).status, 503, 'it is in the roster of that process')
  other.become('left')
  await pass(1_000)
  t.equal((await send(other.listener, 'a')).status, 410)
})
