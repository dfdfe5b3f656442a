import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { test } from 'tap'
import { temporaryFolder } from '../support/temporary-folder.js'
import { importsOf, ROOT, sourceFiles, textOf } from './support/graph.js'

const run = promisify(execFile)

const PACKAGE = /^(?:@[a-z\d-]+\/)?[a-z][a-z\d.-]*(?:\/[\w./-]+)?$/ // not what looks like an import in a text, and no `node:`

const packageOf = (specifier: string) =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')

/** Packages that a source file asks for when it runs: at its start, later, or for the page. */
function packagesOf(file: string): string[] {
  const text = textOf(file)
  const typesOnly = new Set(
    [...text.matchAll(/^(?:import|export) type [^'"]*from '([^']+)'/gm)].map(([, specifier]) => specifier),
  )
  const imported = importsOf(file).flatMap(({ specifier }) => (typesOnly.has(specifier) ? [] : [specifier]))
  const required = [...text.matchAll(/\brequire\('([^']+)'\)/g)].map(([, specifier = '']) => specifier)
  const shown =
    file === 'console/assets.ts' ? [...text.matchAll(/: \['([^']+)', '/g)].map(([, name = '']) => name) : []
  return [...imported, ...required, ...shown].filter((name) => PACKAGE.test(name)).map(packageOf)
}

test('the packages that are installed with the product are those that its code asks for', async (t) => {
  const { dependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  const asked = new Set(sourceFiles().flatMap(packagesOf))
  t.same([...asked].sort(), Object.keys(dependencies).sort())
})

test('an installation without the compiler builds nothing and does not fail', async (t) => {
  const folder = await temporaryFolder(t)
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  const prepare = () => run(process.execPath, [join(ROOT, 'prepare.js')], { cwd: folder })
  t.match((await prepare()).stdout, /no compiler was installed/)
  await mkdir(join(folder, 'dist/program'), { recursive: true })
  await writeFile(join(folder, 'dist/program/main.js'), '')
  t.equal((await prepare()).stdout, '')
})
