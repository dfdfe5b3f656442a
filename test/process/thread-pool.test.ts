import { once } from 'node:events'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Worker } from 'node:worker_threads'
import { test } from 'tap'
import { createPool, NotBegun } from '../../src/process/thread-pool.js'
import { temporaryFolder } from '../support/temporary-folder.js'

type Test = { teardown(task: () => unknown): void }

/** Threads that sleep for as long as they are told, or die. */
async function sleepers(t: Test, { waitingBytes = 1_000, jobMs = 60_000 } = {}) {
  const file = join(await temporaryFolder(t), 'sleeper.mjs')
  const code = `import { parentPort } from 'node:worker_threads'
    const never = new Int32Array(new SharedArrayBuffer(4))
    parentPort.on('message', (job) => {
      if (job === 'die') throw new Error('died')
      if (job === 'exit') process.exit(0)
      if (job === 'fill') for (const all = []; ; ) all.push(new Array(1e6).fill(all.length))
      if (job === 'hang') for (;;) Atomics.wait(never, 0, 0, 10) // it never ends, and leaves the processor to others
      setTimeout(() => parentPort.postMessage(job), job)
    })`
  await writeFile(file, code)
  return createPool<number | string, number>({
    code: pathToFileURL(file),
    size: 1,
    heapMb: 32,
    jobMs,
    waitingBytes,
  })
}

test('keys take turns: who sends many delays another by one', async (t) => {
  const pool = await sleepers(t)
  const ended: string[] = []
  const run = (key: string) => pool.run(key, 1, [], 1).then(() => ended.push(key))
  await Promise.all([...Array.from({ length: 10 }, () => run('many')), run('one')])
  t.ok(ended.indexOf('one') <= 2, ended.join())
})

test('a job that throws, ends its thread, hangs or fills its memory ends alone', async (t) => {
  for (const [job, jobMs] of [
    ['die', 60_000],
    ['exit', 60_000],
    ['fill', 60_000],
    ['hang', 4_000], // which a thread needs to start on a busy machine
  ] as const) {
    const pool = await sleepers(t, { jobMs })
    const [bad, good] = await Promise.allSettled([pool.run('a', job, [], 1), pool.run('b', 5, [], 1)])
    t.equal(bad.status, 'rejected', job)
    t.notOk(bad.status === 'rejected' && bad.reason instanceof NotBegun, 'it had a thread')
    t.match(good, { status: 'fulfilled', value: 5 })
  }
})

test('where no thread can be started each job fails, and none waits for ever', async (t) => {
  const pool = createPool<number, number>({
    code: new URL('http://127.0.0.1/no-thread-starts-from-here.js'),
    ...{ size: 1, heapMb: 32, jobMs: 60_000, waitingBytes: 1_000 },
  })
  const settled = await Promise.allSettled([1, 2, 3].map((job) => pool.run('a', job, [], 1)))
  for (const one of settled) {
    t.ok(one.status === 'rejected' && one.reason instanceof NotBegun, 'and nothing is said against it')
  }
})

test('a job that cannot be sent to its thread fails alone', async (t) => {
  const pool = await sleepers(t)
  const bad = pool.run('a', Symbol('not to be cloned') as unknown as string, [], 1)
  const good = pool.run('b', 5, [], 1)
  await t.rejects(bad, /could not be cloned/)
  t.equal(await good, 5)
})

test('a thread that died while it had nothing to do is given no job', async (t) => {
  const pool = await sleepers(t)
  const started = once(process, 'worker')
  t.equal(await pool.run('a', 1, [], 1), 1)
  const [thread] = (await started) as [Worker]
  await thread.terminate()
  t.equal(await pool.run('a', 2, [], 1), 2)
})

test('a module answers in its thread, whatever its folder is called and whatever link leads there', async (t) => {
  const folder = await temporaryFolder(t)
  const pools = new URL('../../src/process/thread-pool.js', import.meta.url).href
  const code = `import { answerJobs } from '${pools}'\nanswerJobs(import.meta.url, (job) => job + 1)`
  const named = join(folder, 'a b#c%20d?e-ü')
  await mkdir(named)
  await writeFile(join(named, 'adder.mjs'), code)
  await symlink(named, join(folder, 'linked'))
  await symlink(join(named, 'adder.mjs'), join(folder, 'other.mjs'))
  for (const place of [
    join(named, 'adder.mjs'),
    join(folder, 'linked/adder.mjs'),
    join(folder, 'other.mjs'),
  ]) {
    const pool = createPool<number, number>({ code: pathToFileURL(place), size: 1, heapMb: 32 })
    t.equal(await pool.run('a', 1, [], 1), 2, place)
    await pool.close()
  }
})

test('beyond its bound the largest of the greediest is given up, and nobody else', async (t) => {
  const pool = await sleepers(t)
  const first = pool.run('x', 20, [], 1)
  const small = pool.run('small', 1, [], 100)
  const greedy = [400, 450, 300].map((bytes) => pool.run('greedy', 1, [], bytes))
  const settled = await Promise.allSettled([first, small, ...greedy])
  t.same(
    settled.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  )
  t.ok(settled.some((one) => one.status === 'rejected' && one.reason instanceof NotBegun))
})

test('what was not answered when the threads are ended is rejected', async (t) => {
  const pool = await sleepers(t)
  const started = once(process, 'worker')
  const [underWay, waiting] = [pool.run('a', 600_000, [], 1), pool.run('a', 1, [], 1)]
  const rejected = Promise.all([t.rejects(underWay), t.rejects(waiting)])
  const [thread] = (await started) as [Worker]
  const ended = once(thread, 'exit')
  await pool.close()
  await Promise.all([rejected, ended])
})

test('after its threads were ended a pool starts none', async (t) => {
  const pool = await sleepers(t)
  let started = 0
  const count = () => {
    started += 1
  }
  process.on('worker', count)
  t.teardown(() => process.off('worker', count))
  const asked = pool.run('a', 600_000, [], 1).catch(() => pool.run('a', 1, [], 1))
  const rejected = t.rejects(asked, { message: /were ended/ })
  await pool.close()
  await rejected
  await t.rejects(pool.run('a', 1, [], 1), { message: /were ended/ })
  t.equal(started, 1)
})
