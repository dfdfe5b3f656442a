import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { test } from 'tap'
import { createReload } from '../../src/composition/reload.js'
import { loadConfig } from '../../src/config/load.js'
import type { Config } from '../../src/config/values.js'

const entry = (name: string) => `  - { id: ${name}, url: "https://${name}.example/mcp" }\n`

test('a configuration that is being written is not read by halves', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-written-'))
  const file = join(folder, 'config.yaml')
  await writeFile(file, `upstreams:\n${entry('a')}${entry('b')}`)
  const applied: Config[] = []
  const parts = [`upstreams:\n${entry('a')}`, entry('c')]
  const reload = createReload({
    config: await loadConfig(file, {}),
    environment: {},
    apply(config) {
      applied.push(config)
      return []
    },
    started: Promise.resolve(),
    log: pino({ level: 'silent' }),
    pause: () => appendFile(file, parts.shift() ?? ''),
  })
  t.teardown(() => {
    reload.close()
    return rm(folder, { recursive: true, force: true })
  })

  // Written in place: the file is empty, then half, then whole.
  await writeFile(file, '')
  await reload.reload()
  t.same(
    applied.map((config) => config.upstreams.map(({ id }) => id)),
    [['a', 'c']],
  )
})

test('a configuration that was still being read when the server ended is not applied', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-written-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'config.yaml')
  await writeFile(file, `upstreams:\n${entry('a')}`)
  let applied = 0
  const reload = createReload({
    config: await loadConfig(file, {}),
    environment: {},
    apply() {
      applied += 1
      return []
    },
    started: Promise.resolve(),
    log: pino({ level: 'silent' }),
  })
  await writeFile(file, `upstreams:\n${entry('b')}`)
  const reading = reload.reload()
  reload.close()
  await reading
  t.equal(applied, 0)
})
