/** Of several processes on one database, only one of which subscribes, each can take what the upstream sends. */
import { type Test, test } from 'tap'
import { createRegistrations } from '../../src/events/registrations.js'
import { systemClock } from '../../src/net/clock.js'
import { createBoard } from '../../src/store/replicas/notes.js'
import { NO_POSTGRES, type Storage, shared } from '../store/support/storages.js'
import { until } from '../support/upstream-world.js'
import { AGENT, listening } from './support/listeners.js'

async function processes(t: Test, storage: Storage) {
  const far = listening(t)
  return {
    ...far,
    /** `isNotified`: else it looks once a second, as where a notice was lost. */
    async process(known: Parameters<typeof far.start>[0], isNotified = true) {
      const { replicas } = await storage.open()
      if (!replicas) throw new Error('a shared storage has replicas')
      const { notes } = replicas
      const listen = isNotified ? replicas.listen : () => async () => {}
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
  await until(
    'others know, in whose roster it is',
    async () => (await send(other.listener, 'a')).status === 503,
  )
  other.become('left')
  await pass(1_000)
  t.equal((await send(other.listener, 'a')).status, 410)
})

test('a challenge is answered by whichever process is asked, and only while one of them asks', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const { process, said, answer, pass, send, key } = await processes(t, storage)
  const reader = await process('declares')
  const others = [await process('unknown'), await process('unknown', false)]
  const challenge = {
    ...{ type: 'webhook.challenge', challenge: 'c'.repeat(32), seller_agent_url: AGENT },
    ...{ delivery_auth: { mode: 'rfc9421' }, event_types: ['signal.updated'] },
  }
  for (const asked of [1, 2]) {
    await until('it is asked', () => said.length === asked)
    for (const { listener } of [...others, reader]) {
      const reply = await send(listener, 'a', key, challenge)
      t.match(reply, { status: 200, body: { challenge: challenge.challenge } })
    }
    await answer()
    for (const { listener } of [...others, reader]) {
      await until('nobody asks any more', async () => {
        return (await send(listener, 'a', key, challenge)).status === 403
      })
    }
    await pass(3_600_000)
  }
})
