import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Test, test } from 'tap'
import { temporaryFolder } from '../support/temporary-folder.js'
import { ROOT } from './support/graph.js'

const TOGETHER = fileURLToPath(new URL('../together.js', import.meta.url))
const PROVEN = join('support', 'proven.ts')
const FOLDER = fileURLToPath(new URL('.', import.meta.url)) // where `tap` can be imported

type Texts = Readonly<Record<string, string>>

async function written(t: Test, files: Texts): Promise<string[]> {
  const folder = await mkdtemp(join(FOLDER, 'files-'))
  t.teardown(() => rm(folder, { recursive: true }))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  return Object.keys(files).map((name) => join(folder, name))
}

/** Runs them in one process: its exit code, what it printed, and the results in that. */
async function run(...given: string[]) {
  const { code, stdout } = await new Promise<{ code: unknown; stdout: string }>((resolve) => {
    execFile(process.execPath, [TOGETHER, ...given], (error, stdout) =>
      resolve({ code: error?.code, stdout }),
    )
  })
  return { code, stdout, results: stdout.split('\n').filter((line) => /^(not )?ok/.test(line)) }
}

const together = async (t: Test, files: Texts) => run(...(await written(t, files)))

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

test('a process that is asked to tells what failed at its end, with the numbers', async (t) => {
  const files = {
    'wrong.js': `import { test } from 'tap'; test('is wrong', async (t) => { t.equal(1, 2, 'as many') })`,
    'right.js': `import { test } from 'tap'; test('is right', async (t) => { t.pass() })`,
    'ends.js': `import { test } from 'tap'; test('ends', async () => process.exit(0))`,
  }
  const { code, stdout } = await run('--tell', ...(await written(t, files)))
  t.equal(code, 1)
  const told = stdout.split('# What failed:\n')[1]
  t.match(told, /^not ok - \S+\/wrong\.js > is wrong > as many\n/)
  t.match(told, /^ +-2\n +\+1\n/m)
  t.match(told, /^not ok \d+ - the process ended before these files: \S+\/ends\.js/m)
  t.notMatch(told, /right\.js/)
})

test('of files that processes share, each is run once, and one that ends its process is told by that alone', async (t) => {
  const right = `import { test } from 'tap'; test('is right', async (t) => { t.pass() })`
  const ends = `import { test } from 'tap'; test('ends', async () => process.exit(0))`
  const paths = await written(t, {
    'a.js': right,
    'b.js': right,
    'ends.js': ends,
    'c.js': right,
    'd.js': right,
  })
  const claims = await temporaryFolder(t)
  const ended = await Promise.all([1, 2].map(() => run('--claims', claims, ...paths)))
  t.equal(ended.filter(({ code }) => code === 1).length, 1)
  const results = ended.flatMap((each) => each.results)
  t.equal(
    results.filter((line) => /^ok \d+ - .*\/[abcd]\.js > is right/.test(line)).length,
    4,
    results.join('; '),
  )
  t.equal(new Set(results.map((line) => /\/(\w+)\.js/.exec(line)?.[1])).size, 5)
  t.match(results.join(), /not ok \d+ - the process ended before these files: \S+\/ends\.js(,not|,ok|$| #)/)
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
