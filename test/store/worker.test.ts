import { type RawBuilder, sql } from 'kysely'
import { type Test, test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import type { Store } from '../../src/store/store.js'
import { createWorker } from '../../src/store/worker.js'
import { until } from '../support/upstream-world.js'
import { due, embedded, onEveryStorage } from './support/storages.js'

const LANES_THAT_HANG = 8 // together they could take every place

onEveryStorage('lanes whose jobs hang keep no other lane waiting', async (t, storage) => {
  const { jobs, write } = await storage.open({ now: Date.now })
  let release = () => {}
  const hangs = new Promise<void>((resolve) => {
    release = resolve
  })
  const done = new Set<string>() // a job whose end could not be written is done again
  const hanging = new Map<string, number>()
  const worker = createWorker({
    ...{ jobs, clock: systemClock, owner: 'one', onProblem: (problem: string) => t.comment(problem) },
    kinds: {
      call: {
        async run(held) {
          if (held.lane !== 'well') {
            hanging.set(held.lane, (hanging.get(held.lane) ?? 0) + 1)
            await hangs
          }
          done.add(held.id)
          await jobs.end(held, 'answered')
        },
      },
    },
  })
  const job = (id: string, lane: string) => ({ id, lane, kind: 'call', caller: 'acme', data: {} })
  await write(async (repositories) => {
    for (let index = 0; index < 600; index += 1) {
      await repositories.jobs.add(job(`h${index}`, `hung ${index % LANES_THAT_HANG}`))
    }
    for (let index = 0; index < 20; index += 1) await repositories.jobs.add(job(`w${index}`, 'well'))
  })
  t.teardown(async () => {
    release()
    await worker.close()
  })
  worker.start()
  await until('the healthy ones are done', () => done.size === 20)
  for (const [lane, places] of hanging) t.ok(places <= 8, `${places} places of ${lane}`)
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

onEveryStorage('a job that is just being written down is claimed by nobody else here', async (t, storage) => {
  const { jobs } = await storage.open({ now: Date.now })
  const onProblem = (problem: string) => t.comment(problem)
  const worker = createWorker({ jobs, clock: systemClock, owner: 'one', onProblem, kinds: {} })
  const job = { id: 'a', lane: 'l', kind: 'call', caller: 'acme', data: {} }
  const unreserve = worker.reserve(['a'])
  const added = await jobs.add(job, worker.hold)
  t.equal(await worker.claim('a', true), undefined, 'it is about to be worked on')
  if (!added.isHeld) throw new Error('it is held')
  const working = worker.during(added.job, async () => {
    t.equal(await worker.claim('a', true), undefined, 'it is worked on')
    return await jobs.release(added.job, 0)
  })
  unreserve()
  t.equal(await working, true)
  t.match(await worker.claim('a', true), { epoch: 2 })
  await worker.close()
})

onEveryStorage(
  'a job that cannot be taken up is looked at again, and not without end',
  async (t, storage) => {
    const { jobs } = await storage.open({ now: Date.now })
    let claims = 0
    const broken = {
      ...jobs,
      async claim(): Promise<undefined> {
        claims += 1
        throw new Error('its row is damaged')
      },
    }
    const problems: string[] = []
    const looks: (() => void)[] = [] // that are put off
    function after(_: number, look: () => void) {
      looks.push(look)
      return () => {}
    }
    const clock = { ...systemClock, after }
    const worker = createWorker({
      ...{ jobs: broken, clock, owner: 'one', kinds: { call: { run: async () => {} } } },
      onProblem: (problem) => void problems.push(problem),
    })
    await jobs.add({ id: 'a', lane: 'l', kind: 'call', caller: 'acme', data: {} })
    worker.start()
    await until('it was looked at', () => problems.length === 1 && looks.length === 1)
    for (let turn = 0; turn < 20; turn += 1) await jobs.due(['call'], [], 10)
    t.equal(claims, 1, 'not again before a pause')
    looks[0]?.()
    await until('it was looked at again', () => claims === 2)
    t.match(problems, [/a could not be taken up: Error: its row is damaged/])
    await worker.close()
  },
)

test('a process whose jobs another has taken up says so once, of all of them', async (t) => {
  const store = await (await embedded(t)).open({ now: Date.now })
  const { jobs } = store
  const [problems, beats]: [string[], (() => void)[]] = [[], []]
  function after(_: number, beat: () => void) {
    beats.push(beat)
    return () => {}
  }
  const worker = createWorker({
    ...{ jobs, clock: { ...systemClock, after }, owner: 'one', kinds: {} },
    onProblem: (problem) => void problems.push(problem),
  })
  let finish = () => {}
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const ids = ['a', 'b', 'c', 'd', 'kept']
  for (const id of ids) await jobs.add({ id, lane: 'l', kind: 'call', caller: 'acme', data: {} })
  const held = await Promise.all(ids.map((id) => worker.claim(id)))
  const working = held.map((one) => one && worker.during(one, () => finished))
  await due(store, ...ids.slice(0, -1)) // as when it was still for longer than a lease
  await jobs.claimAll(ids, { owner: 'two', ms: 60_000 })
  for (let beat = 1; beat <= 3; beat += 1) {
    beats.shift()?.()
    await until('it has beaten', () => beats.length === 1)
  }
  t.same(problems, ['another process has taken up call a, call b, call c and 1 more, which this one held'])
  finish()
  await Promise.all(working)
  await worker.close()
})

test('a job that ends while its lease is renewed was taken up by nobody', async (t) => {
  const { jobs } = await (await embedded(t)).open({ now: Date.now })
  const [problems, beats]: [string[], (() => void)[]] = [[], []]
  function after(_: number, beat: () => void) {
    beats.push(beat)
    return () => {}
  }
  let finish = () => {}
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const late = {
    ...jobs,
    async extend(...said: Parameters<typeof jobs.extend>) {
      finish()
      await working
      return jobs.extend(...said)
    },
  }
  const worker = createWorker({
    ...{ jobs: late, clock: { ...systemClock, after }, owner: 'one', kinds: {} },
    onProblem: (problem) => void problems.push(problem),
  })
  await jobs.add({ id: 'a', lane: 'l', kind: 'call', caller: 'acme', data: {} })
  await jobs.add({ id: 'b', lane: 'l', kind: 'call', caller: 'acme', data: {} })
  const [ends, stays] = await Promise.all([worker.claim('a'), worker.claim('b')])
  let stop = () => {}
  const stopped = new Promise<void>((resolve) => {
    stop = resolve
  })
  const other = stays && worker.during(stays, () => stopped)
  const working =
    ends && worker.during(ends, () => finished.then(async () => void (await jobs.end(ends, 'answered'))))
  beats.shift()?.()
  await until('it has beaten', () => beats.length === 1)
  t.same(problems, [])
  stop()
  await other
  await worker.close()
})

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

onEveryStorage('jobs that begin together take no more places, and no more at once', async (t, storage) => {
  const { jobs, write } = await storage.open({ now: Date.now })
  const long = 'x'.repeat(40_000) // two of them are too much to be read at once
  const running = new Map<string, number>()
  const done: string[] = []
  let most = 0
  const lots: string[][] = []
  const counted = {
    ...jobs,
    claimAll: (ids: readonly string[], hold: { owner: string; ms: number }) => {
      lots.push([...ids])
      return jobs.claimAll(ids, hold)
    },
  }
  const worker = createWorker({
    ...{ jobs: counted, clock: systemClock, owner: 'one', together: 8 },
    onProblem: (problem: string) => t.comment(problem),
    places: { inAll: 12, aLane: 5 },
    kinds: {
      call: {
        async run(held) {
          running.set(held.lane, (running.get(held.lane) ?? 0) + 1)
          most = Math.max(most, ...running.values())
          await jobs.end(held, 'answered')
          running.set(held.lane, (running.get(held.lane) ?? 0) - 1)
          done.push(held.id)
        },
      },
    },
  })
  const job = (id: string, lane: string, text = '') => ({
    id,
    lane,
    kind: 'call',
    caller: 'acme',
    data: { text },
  })
  await write(async (repositories) => {
    for (let at = 0; at < 40; at += 1) await repositories.jobs.add(job(`a${at}`, `l${at % 2}`))
    for (let at = 0; at < 4; at += 1) await repositories.jobs.add(job(`long${at}`, 'l2', long))
  })
  worker.start()
  await until('all are done', () => done.length === 44)
  await worker.close()
  t.equal(new Set(done).size, 44, 'each once')
  t.ok(most <= 5, `${most} at once in a lane`)
  t.ok(
    lots.some(({ length }) => length >= 8),
    'as one',
  )
  const both = lots.filter((lot) => lot.filter((id) => id.startsWith('long')).length > 1)
  t.same(both, [], 'long ones are claimed one by one')
})

/** Damages one of three jobs that are due, works on them together and expects that the others are done and it is named. */
async function worksWithout(t: Test, { jobs, db }: Pick<Store, 'jobs' | 'db'>, damaged: RawBuilder<unknown>) {
  for (const id of ['a', 'hurt', 'b']) {
    await jobs.add({ id, lane: 'l', kind: 'call', caller: 'acme', data: { text: 'some text' } })
  }
  await sql`update jobs set data = ${damaged} where id = 'hurt'`.execute(db)
  const [done, problems]: [string[], string[]] = [[], []]
  const worker = createWorker({
    ...{ jobs, clock: systemClock, owner: 'one', together: 8 },
    onProblem: (problem: string) => void problems.push(problem),
    kinds: {
      call: {
        async run(held) {
          await jobs.end(held, 'answered')
          done.push(held.id)
        },
      },
    },
  })
  await worker.round()
  await worker.close()
  t.same(done.sort(), ['a', 'b'])
  return problems
}

test('a row that is no text keeps those that begin with it from nothing', async (t) => {
  const store = await (await embedded(t)).open({ now: Date.now })
  const problems = await worksWithout(t, store, sql`cast(x'7b22ff' as text)`)
  t.match(problems, [/hurt could not be taken up: \/.* is damaged/])
})

onEveryStorage('a row that is no JSON keeps those that begin with it from nothing', async (t, storage) => {
  const store = await storage.open({ now: Date.now })
  const problems = await worksWithout(t, store, sql`'{"text#:"x"}'`)
  t.match(problems, [/hurt could not be taken up: SyntaxError/])
})
