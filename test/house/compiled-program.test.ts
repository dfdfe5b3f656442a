import { isAscii } from 'node:buffer'
import { execFile } from 'node:child_process'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Script } from 'node:vm'
import { test } from 'tap'
import { temporaryFolder } from '../support/temporary-folder.js'
import { ROOT } from './support/graph.js'

const execute = promisify(execFile)

type Start = { compiled(file: string): { script: Script; run(): unknown; keep(): void } }

test('a file of the program runs from what was made of its text, and never of another', async (t) => {
  const { compiled } = (await import(pathToFileURL(join(ROOT, 'start.js')).href)) as Start
  const folder = await temporaryFolder(t)
  const file = join(folder, 'one.cjs')
  function ran(): unknown {
    const { script, run } = compiled(file)
    return [run(), script.cachedDataRejected]
  }
  await writeFile(file, "module.exports = (() => 'was')()")
  t.same(ran(), ['was', undefined], 'nothing was made of it yet')
  compiled(file).keep()
  t.same(ran(), ['was', false])

  await writeFile(file, "module.exports = (() => 'now')()")
  t.same(ran(), ['now', undefined], 'a text of the same length')

  await writeFile(file, "module.exports = (() => 'was')()")
  const place = join(folder, (await readdir(folder)).find((name) => name.endsWith('.cache')) ?? '')
  const made = await readFile(place)
  for (let at = 0; at < made.byteLength; at += 1 + (made.byteLength >> 4)) {
    const damaged = Buffer.from(made)
    damaged[at] = (damaged[at] ?? 0) ^ 1
    await writeFile(place, damaged)
    t.same(ran(), ['was', undefined], `byte ${at}`)
  }
  await writeFile(place, '')
  t.same(ran(), ['was', undefined])
  await writeFile(place, made)
  t.same(ran(), ['was', false])
})

test('what was made of functions is kept as well, once they have run', async (t) => {
  const { compiled } = (await import(pathToFileURL(join(ROOT, 'start.js')).href)) as Start
  const folder = await temporaryFolder(t)
  const file = join(folder, 'one.cjs')
  await writeFile(
    file,
    'module.exports = function sum(a, b) { return [a, b].reduce((one, other) => one + other) }',
  )
  const { run, keep } = compiled(file)
  const kept = async () => {
    keep()
    const [name = ''] = (await readdir(folder)).filter((each) => each.endsWith('.cache'))
    return (await stat(join(folder, name))).size
  }
  const sum = run() as (a: number, b: number) => number
  const before = await kept()
  t.equal(sum(1, 2), 3)
  t.ok((await kept()) > before)
})

test('the program finds what it loads only when it is needed, with source maps as without', async (t) => {
  const folder = await temporaryFolder(t)
  const config = join(folder, 'demo.json')
  await writeFile(config, JSON.stringify({ sandbox: true, storage: { url: `file:${folder}/data` } }))
  const check = ['dist/program/main.js', 'check', '--config', config]
  for (const flags of [[], ['--enable-source-maps']]) {
    const ended = await execute(process.execPath, [...flags, ...check], { cwd: ROOT, env: {} }).catch(
      (error) => error,
    )
    t.equal(ended.stderr, 'tributary: nothing would be federated\n', flags.join())
  }
})

test('the program is read as it was written, also where it looks for characters beyond ASCII', async (t) => {
  const program = join(ROOT, 'dist/program')
  const files = (await readdir(program)).filter((name) => name.endsWith('.cjs'))
  t.ok(files.includes('program.cjs'))
  for (const name of files) t.ok(isAscii(await readFile(join(program, name))), name)
  t.ok((await readFile(join(program, 'program.cjs'))).includes(String.raw`/["\u201c\u201d]`), 'quoted words')
})
