/** A process with a folder for its storage needs nothing else: no network, no other process, no place of its own elsewhere. */
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'tap'
import { startCommand } from '../support/command.js'
import { until } from '../support/until.js'

const WATCHED = new URL('./support/ways-out.js', import.meta.url).href

test('it starts, serves and ends without a connection, a look-up or a child process', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-folder-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const [file, data] = [join(folder, 'tributary.json'), join(folder, 'data')]
  await writeFile(
    file,
    JSON.stringify({
      listen: { port: 0, drain: '0s' },
      callers: { anonymous: 'metadata' },
      storage: { url: `file:${data}` },
    }),
  )
  for (const start of ['on an empty folder', 'on its own']) {
    const { process, printed, finished } = startCommand(['serve', '--config', file], {
      NODE_OPTIONS: `--import=${WATCHED}`,
    })
    t.teardown(() => process.kill('SIGKILL'))
    const [url] = await printed(/http:\/\/127\.0\.0\.1:\d+/)
    await until(
      () => fetch(`${url}/readyz`),
      ({ status }) => status === 200,
    )
    process.kill('SIGTERM')
    const { code, err } = await finished
    t.equal(code, 0, start)
    t.match(err, 'the ways out are watched')
    t.notMatch(err, /^way out: (?!lookup "127\.0\.0\.1").*/m) // which asks nobody
  }
  t.same((await readdir(folder)).sort(), ['data', 'tributary.json'])
})
