import { writeFileSync } from 'node:fs'
import { appendFile, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { type Test, test } from 'tap'
import { createReload, followFile } from '../../src/composition/running-config.js'
import { loadConfig } from '../../src/config/load.js'
import type { Config } from '../../src/config/values.js'
import { until } from '../support/until.js'

const entry = (name: string) => `  - { id: ${name}, url: "https://${name}.example/mcp" }\n`

type Meanwhile = {
  /** What is written between looks. */
  writes?: string[]
  /** What is done when the file was read first. */
  beforeServed?(file: string): Promise<void>
  /** Told of each wait between looks. */
  onWait?(): void
}

/** A file with two upstreams that is followed, and what was applied of it. */
async function following(t: Test, { writes = [], beforeServed, onWait }: Meanwhile = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-written-'))
  const file = join(folder, 'config.yaml')
  await writeFile(file, `upstreams:\n${entry('a')}${entry('b')}`)
  const applied: Config[] = []
  const looked: (() => Promise<void>)[] = [] // what happens after each wait, beside the next look
  /** Each wait ends when the next of it is written. */
  function writing(_ms: number, task: () => void): () => void {
    onWait?.()
    void appendFile(file, writes.shift() ?? '').then(() => {
      task()
      void looked.shift()?.()
    })
    return () => {}
  }
  const followed = followFile(file)
  const config = await loadConfig(file, {})
  await beforeServed?.(file)
  const reload = createReload({
    ...{ config, followed },
    environment: {},
    apply(config) {
      applied.push(config)
      return []
    },
    started: Promise.resolve(),
    clock: { now: Date.now, after: writing },
    log: pino({ level: 'silent' }),
  })
  t.teardown(async () => {
    reload.close()
    await reload.reload() // behind one that a look at the file has begun
    await rm(folder, { recursive: true, force: true })
  })
  return { file, reload, applied, looked }
}

test('a configuration that is being written is not read by halves', async (t) => {
  // Written in place: the file is empty, then half, then whole.
  const { file, reload, applied } = await following(t, { writes: [`upstreams:\n${entry('a')}`, entry('c')] })
  await writeFile(file, '')
  await reload.reload()
  t.same(
    applied.map((config) => config.upstreams.map(({ id }) => id)),
    [['a', 'c']],
  )
})

test('a file of which the next half is written when it has just stood still is not read by halves', async (t) => {
  const { file, reload, applied, looked } = await following(t, { writes: ['', entry('d')] })
  await writeFile(file, `upstreams:\n${entry('b')}${entry('c')}`)
  looked.push(async () => {
    await stat(file) // the last look at it has begun, too
    writeFileSync(file, `upstreams:\n${entry('a')}`)
  })
  await reload.reload()
  t.equal(applied.length, 1)
  t.notMatch(applied[0]?.upstreams.map(({ id }) => id).join(), /^a$/)
})

test('a configuration that changes after it was read and before it is served is read again', async (t) => {
  const { applied } = await following(t, {
    beforeServed: (file) => writeFile(file, `upstreams:\n${entry('b')}`),
  })
  await until(
    () => applied,
    ([config]) => config !== undefined,
  )
  t.same(
    applied.map((config) => config.upstreams.map(({ id }) => id)),
    [['b']],
  )
})

test('a file is read twice at most, however often that is asked at once', async (t) => {
  let waits = 0
  const onWait = () => {
    waits += 1
  }
  const { reload } = await following(t, { onWait })
  await Promise.all(Array.from({ length: 20 }, reload.reload))
  t.equal(waits, 1)
  const begun = reload.reload()
  await new Promise(setImmediate)
  await Promise.all([begun, ...Array.from({ length: 20 }, reload.reload)])
  t.equal(waits, 3)
})

test('a file that stays empty is no configuration: the last one goes on, and it is told', async (t) => {
  const { file, reload, applied } = await following(t)
  const { revision } = reload.state()
  await writeFile(file, '')
  await reload.reload()
  t.same(applied, [])
  t.match(reload.state(), { revision, problem: /expected settings.*got nothing/ })
})

test('a configuration that was still being read when the server ended is not applied', async (t) => {
  const { file, reload, applied } = await following(t)
  await writeFile(file, `upstreams:\n${entry('b')}`)
  const reading = reload.reload()
  reload.close()
  await reading
  t.same(applied, [])
})
