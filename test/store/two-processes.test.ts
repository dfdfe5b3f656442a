/** Work of several processes on one database: in one order whatever their clocks say, and by one of them. */
import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import type { Held } from '../../src/store/jobs.js'
import { createWorker } from '../../src/store/worker.js'
import { until } from '../support/upstream-world.js'
import { due, NO_POSTGRES, shared } from './support/storages.js'

const HOUR_MS = 3_600_000
const job = (id: string, side?: string) => ({
  ...{ id, kind: 'notice', lane: 'https://buyer.example', caller: 'acme', data: {} },
  ...(side && { target: 'segment-1', side }),
})

test('opposite requests are done in the order in which the database took them, two hours apart or not', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const [ahead, behind] = await Promise.all(
    [HOUR_MS, -HOUR_MS].map((ms) => storage.open({ now: () => Date.now() + ms })),
  )
  if (!ahead || !behind) throw new Error('both are open')
  const owner = (name: string) => ({ owner: name, ms: 60_000 })
  const first = (await ahead.jobs.add(job('on', 'on'), owner('ahead'))).job as Held
  const second = await behind.jobs.add(job('off', 'off'), owner('behind'))
  t.match(second, { isHeld: false }, 'what was asked first is done first')
  t.ok(second.job.seq > first.seq, 'though its clock says that it was asked two hours before')
  t.match(await behind.jobs.later(first), [{ id: 'off' }])
  t.equal(await ahead.jobs.end(first, 'answered'), true)
  t.match(await behind.jobs.claim('off', owner('behind')), { id: 'off', attempts: 1 })
})

test('a notice that a dead process held is sent by one of the two that live', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const stores = await Promise.all([0, 1].map(() => storage.open({ now: Date.now })))
  const [{ jobs }] = stores as [(typeof stores)[number]]
  const ids = Array.from({ length: 40 }, (_, at) => `notice-${at}`)
  for (const id of ids) await jobs.add(job(id), { owner: 'dead', ms: 600_000 })
  const sent: string[] = []
  const workers = stores.map((store, at) =>
    createWorker({
      ...{ jobs: store.jobs, clock: systemClock, owner: `living-${at}`, onProblem: t.comment },
      kinds: {
        notice: {
          async run(held) {
            sent.push(held.id)
            await store.jobs.end(held, 'answered')
          },
        },
      },
    }),
  )
  await due({ db: (stores[0] as (typeof stores)[number]).db }, ...ids)
  for (const worker of workers) worker.start()
  await until('all are sent', () => new Set(sent).size === ids.length)
  for (const worker of workers) await worker.close()
  t.same(sent.sort(), ids.sort(), 'each once')
})
