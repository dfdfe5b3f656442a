import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Test, test } from 'tap'
import { ROOT } from './support/graph.js'

const TOGETHER = fileURLToPath(new URL('../together.js', import.meta.url))
const PROVEN = join('support', 'proven.ts')
const FOLDER = fileURLToPath(new URL('.', import.meta.url)) // where `tap` can be imported

/** Runs files of these texts in one process: its exit code, and the results that it printed. */
async function together(t: Test, files: Readonly<Record<string, string>>) {
  const folder = await mkdtemp(join(FOLDER, 'files-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const paths = Object.keys(files).map((name) => join(folder, name))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  const { code, stdout } = await new Promise<{ code: unknown; stdout: string }>((resolve) => {
    execFile(process.execPath, [TOGETHER, ...paths], (error, stdout) =>
      resolve({ code: error?.code, stdout }),
    )
  })
  return { code, results: stdout.split('\n').filter((line) => /^(not )?ok/.test(line)) }
}

test('of files that share a process, each that goes wrong is named, and the others run', async (t) => {
  const { code, results } = await together(t, {
    'throws.js': `throw new Error('at once')`,
    'empty.js': '',
    'false.js': `import { test } from 'tap'; test('is wrong', async (t) => { t.equal(1, 2) })`,
    'tears-down.js': `import t from 'tap'; t.teardown(() => t.pass('torn down')); t.test('is right', async (t) => { t.pass() })`,
    'skipped.js': `import { test } from 'tap'; test('waits for its data', { skip: 'absent' }, async () => {})`,
    'right.js': `import { test } from 'tap'; test('is right', async (t) => { t.pass() })`,
    'throws-late.js': `import { test } from 'tap'; test('lets go', async (t) => { setTimeout(() => { throw new Error('nobody caught') }); await new Promise(() => {}) })`,
    'never.js': `import { test } from 'tap'; test('is never run', async (t) => { t.pass() })`,
  })
  t.equal(code, 1)
  const said = [
    /^not ok 1 - .*\/throws\.js: Error: at once/,
    /^not ok 2 - .*\/empty\.js: Error: it has no test/,
    /^not ok 3 - .*\/false\.js > is wrong/,
    /^ok 4 - .*\/tears-down\.js > is right/,
    /^ok 5 - torn down/,
    /^ok 6 - waits for its data # SKIP absent/,
    /^ok 7 - .*\/right\.js > is right/,
    /^not ok 8 - .*\/throws-late\.js > lets go/,
    /^not ok 9 - the process ended before these files: \S+\/throws-late\.js, \S+\/never\.js/,
  ]
  t.equal(results.length, said.length, results.join('; '))
  for (const [at, line] of said.entries()) t.match(results[at], line)
})

test('a file that ends tap fails the process: tests of the others would not be counted', async (t) => {
  const { code, results } = await together(t, {
    'ends.js': `import t from 'tap'; t.test('is right', async (t) => { t.pass() }); t.end()`,
    'wrong.js': `import { test } from 'tap'; test('is wrong', async (t) => { t.equal(1, 2) })`,
  })
  t.equal(code, 1, results.join('; '))
})

test('every property is tried by the one helper, which knows the seed and how many cases are asked for', async (t) => {
  const folder = join(ROOT, 'test')
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith('.ts'))
  const others: string[] = []
  for (const file of files) {
    const text = await readFile(join(folder, file), 'utf8')
    if (/\bfc\s*\.\s*(assert|check)\b/.test(text) && file !== PROVEN) others.push(file)
  }
  t.ok(files.includes(PROVEN))
  t.same(others, [])
})
