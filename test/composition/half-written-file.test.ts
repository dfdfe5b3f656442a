import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { type Test, test } from 'tap'
import { createReload } from '../../src/composition/running-config.js'
import { loadConfig } from '../../src/config/load.js'
import type { Config } from '../../src/config/values.js'

const entry = (name: string) => `  - { id: ${name}, url: "https://${name}.example/mcp" }\n`

/** A file with two upstreams that is followed, and what was applied of it. `meanwhile`: what is written between looks. */
async function following(t: Test, meanwhile: string[] = []) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-written-'))
  const file = join(folder, 'config.yaml')
  await writeFile(file, `upstreams:\n${entry('a')}${entry('b')}`)
  const applied: Config[] = []
  /** Each wait ends when the next of it is written. */
  function writing(_ms: number, task: () => void): () => void {
    void appendFile(file, meanwhile.shift() ?? '').then(task)
    return () => {}
  }
  const reload = createReload({
    config: await loadConfig(file, {}),
    environment: {},
    apply(config) {
      applied.push(config)
      return []
    },
    started: Promise.resolve(),
    clock: { now: Date.now, after: writing },
    log: pino({ level: 'silent' }),
  })
  t.teardown(() => {
    reload.close()
    return rm(folder, { recursive: true, force: true })
  })
  return { file, reload, applied }
}

test('a configuration that is being written is not read by halves', async (t) => {
  // Written in place: the file is empty, then half, then whole.
  const { file, reload, applied } = await following(t, [`upstreams:\n${entry('a')}`, entry('c')])
  await writeFile(file, '')
  await reload.reload()
  t.same(
    applied.map((config) => config.upstreams.map(({ id }) => id)),
    [['a', 'c']],
  )
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
