import { systemClock } from '../../src/net/clock.js'
import { createWorker } from '../../src/store/jobs/worker.js'
import { until } from '../support/upstream-world.js'
import { onEveryStorage } from './support/storages.js'

onEveryStorage('a lane whose jobs hang keeps no other lane waiting', async (t, storage) => {
  const { jobs, write } = await storage.open({ now: Date.now })
  let release = () => {}
  const hangs = new Promise<void>((resolve) => {
    release = resolve
  })
  const done: string[] = []
  let hanging = 0
  const worker = createWorker({
    ...{ jobs, clock: systemClock, owner: 'one', onProblem: (problem: string) => t.comment(problem) },
    kinds: {
      call: {
        async run(held) {
          if (held.lane === 'hung') {
            hanging += 1
            await hangs
          }
          done.push(held.id)
          await jobs.end(held, 'answered')
        },
      },
    },
  })
  const job = (id: string, lane: string) => ({ id, lane, kind: 'call', caller: 'acme', data: {} })
  await write(async (repositories) => {
    for (let index = 0; index < 600; index += 1) await repositories.jobs.add(job(`h${index}`, 'hung'))
    for (let index = 0; index < 20; index += 1) await repositories.jobs.add(job(`w${index}`, 'well'))
  })
  worker.start()
  await until('the healthy ones are done', () => done.length === 20)
  t.ok(hanging <= 8, `${hanging} places of the hung lane`)
  t.teardown(() => release())
  release()
  await worker.close()
})

onEveryStorage(
  'what a dead process held is taken up, and its late write changes nothing',
  async (t, storage) => {
    const { jobs } = await storage.open({ now: Date.now })
    const added = await jobs.add(
      { id: 'a', lane: 'l', kind: 'call', caller: 'acme', data: {} },
      { owner: 'dead', ms: 300 },
    )
    const taken: number[] = []
    const worker = createWorker({
      ...{ jobs, clock: systemClock, owner: 'two', onProblem: (problem: string) => t.comment(problem) },
      kinds: {
        call: {
          async run(held) {
            taken.push(held.epoch)
            if (added.isHeld) t.equal(await jobs.end(added.job, 'answered', 'by the dead one'), false)
            await jobs.end(held, 'answered', 'by the living')
          },
        },
      },
    })
    worker.start()
    await until('it is taken up', () => taken.length === 1)
    await worker.close()
    t.match(await jobs.get('a'), { state: 'answered', answer: 'by the living', epoch: 2 })
  },
)

onEveryStorage('of many in one process that claim a job at once, one gets it', async (t, storage) => {
  const { jobs } = await storage.open({ now: Date.now })
  const onProblem = (problem: string) => t.comment(problem)
  const kinds = { call: { run: async () => {} } }
  const worker = createWorker({ jobs, clock: systemClock, owner: 'one', onProblem, kinds })
  t.same(await Promise.all([worker.claim('a'), worker.claim('a')]), [undefined, undefined], 'there is none')
  await jobs.add({ id: 'a', lane: 'l', kind: 'call', caller: 'acme', data: {} })
  const claims = await Promise.all(Array.from({ length: 4 }, () => worker.claim('a', true)))
  const held = claims.filter((one) => one !== undefined)
  t.match(held, [{ id: 'a', epoch: 2, attempts: 1 }])
  t.equal(held.length, 1)
  const end = () => Promise.all(held.map((one) => worker.during(one, () => jobs.release(one, 0))))
  t.same(await end(), [true])
  t.match(await worker.claim('a', true), { epoch: 3 }, 'what it let go of it may take again')
  await worker.close()
})
