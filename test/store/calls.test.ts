import type { NewCall } from '../../src/store/calls.js'
import { onEveryStorage } from './support/storages.js'

const call = (id: string, over: Partial<NewCall> = {}): NewCall => ({
  id,
  caller: 'acme',
  key: `key-${id}`,
  task: 'activate_signal',
  upstream: 'northwind',
  upstreamKey: `derived-${id}`,
  target: 'segment-1',
  args: { signal_agent_segment_id: 'segment-1' },
  rows: [],
  ...over,
})

onEveryStorage('an open call is repeated only by who holds its lease', async (t, storage) => {
  const { calls } = await storage.open()
  await calls.intend(call('a'), { owner: 'one', until: storage.clock.now + 1_000 })
  t.equal(await calls.claim('a', { owner: 'two', until: storage.clock.now + 1_000 }), undefined)
  t.same(await calls.unclaimed(10), [])
  storage.clock.now += 1_000
  t.same(await calls.unclaimed(10), ['a'])
  const claimed = await calls.claim('a', { owner: 'two', until: storage.clock.now + 1_000 })
  t.match(claimed, { upstreamKey: 'derived-a', attempts: 2, state: 'open', args: call('a').args })
  t.equal(await calls.claim('a', { owner: 'one', until: storage.clock.now + 1_000 }), undefined)
  const until = storage.clock.now + 1_000
  t.equal(await calls.claim('a', { owner: 'one', until }, true), undefined, 'it is not its own')
  t.match(await calls.claim('a', { owner: 'two', until }, true), { attempts: 3 }, 'its own it may take again')
  await calls.endLeases()
  t.same(await calls.unclaimed(10), ['a'])
})

onEveryStorage('the first outcome of a call stands', async (t, storage) => {
  const { calls } = await storage.open()
  await calls.intend(call('a'), { owner: 'one', until: 0 })
  t.equal(await calls.settle('a', 'answered', { deployments: [] }), true)
  t.equal(await calls.settle('a', 'refused', {}), false)
  t.match(await calls.get('a'), { state: 'answered', answer: { deployments: [] } })
  t.same(await calls.unclaimed(10), [])
})

onEveryStorage('later calls are those of the same caller on the same target', async (t, storage) => {
  const { calls } = await storage.open()
  const lease = { owner: 'one', until: 0 }
  await calls.intend(call('a'), lease)
  storage.clock.now += 1
  await calls.intend(call('b'), lease)
  await calls.intend(call('c', { caller: 'other' }), lease)
  await calls.intend(call('d', { target: 'segment-2' }), lease)
  await calls.intend(call('e', { upstream: 'meridian' }), lease)
  const ids = async (id: string) => {
    const found = await calls.get(id)
    return found && (await calls.later(found)).map((later) => later.id)
  }
  t.same(await ids('a'), ['b'])
  t.same(await ids('b'), [])
})

onEveryStorage('a unit of work is kept whole or not at all', async (t, storage) => {
  const store = await storage.open()
  await t.rejects(
    store.write(async ({ calls, idempotency }) => {
      await calls.intend(call('a'), { owner: 'one', until: 0 })
      await idempotency.bind({ caller: 'acme', key: 'key-a', task: 'activate_signal', fingerprint: 'f' })
      throw new Error('the process thought better of it')
    }),
    { message: 'the process thought better of it' },
  )
  t.equal(await store.calls.get('a'), undefined)
  t.same(await store.calls.ofKey('acme', 'key-a', 0), [])
})

onEveryStorage(
  'of units of work that are kept together, one that fails takes none with it',
  async (t, storage) => {
    const store = await storage.open()
    const lease = { owner: 'one', until: 0 }
    const outcomes = await Promise.allSettled(
      Array.from({ length: 100 }, (_, index) =>
        store.write(async ({ calls }) => {
          await calls.intend(call(`c${index}`), lease)
          if (index % 10 === 3) throw new Error('thought better of it')
          if (index % 10 === 7) await calls.intend(call(`c${index}`), lease) // the same id again
          return index
        }),
      ),
    )
    for (const [index, outcome] of outcomes.entries()) {
      const isKept = index % 10 !== 3 && index % 10 !== 7
      t.equal(outcome.status, isKept ? 'fulfilled' : 'rejected', `unit ${index}`)
      t.equal((await store.calls.get(`c${index}`))?.id, isKept ? `c${index}` : undefined)
    }
  },
)
