import { execFile } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
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

/** Packages that a source file asks for when it runs: at its start or later. */
function packagesOf(file: string): string[] {
  const text = textOf(file)
  const typesOnly = new Set(
    [...text.matchAll(/^(?:import|export) type [^'"]*from '([^']+)'/gm)].map(([, specifier]) => specifier),
  )
  const imported = importsOf(file).flatMap(({ specifier }) => (typesOnly.has(specifier) ? [] : [specifier]))
  const required = [...text.matchAll(/\brequire\('([^']+)'\)/g)].map(([, specifier = '']) => specifier)
  return [...imported, ...required].filter((name) => PACKAGE.test(name)).map(packageOf)
}

const listed = async (): Promise<{ [kind in 'dependencies' | 'devDependencies']: Record<string, string> }> =>
  JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))

test('the code asks for no package that is there only because another needs it', async (t) => {
  const { dependencies, devDependencies } = await listed()
  const asked = new Set(sourceFiles().flatMap(packagesOf))
  t.ok(asked.has('fastify'), 'packages are seen')
  t.same(
    [...asked].filter((name) => !(name in dependencies) && !(name in devDependencies)),
    [],
  )
})

test('the packages that are installed with the product are those that the program loads by name', async (t) => {
  const program = join(ROOT, 'dist/program')
  const files = (await readdir(program)).filter((name) => name.endsWith('.cjs'))
  const { metafile } = await build({
    ...{ entryPoints: files.map((name) => join(program, name)), outdir: program, write: false },
    ...{ bundle: true, platform: 'node', packages: 'external', metafile: true },
  })
  const asked = Object.values(metafile.inputs).flatMap(({ imports }) => imports.map(({ path }) => path))
  const packages = asked.filter((path) => PACKAGE.test(path) && !isBuiltin(path)).map(packageOf)
  t.same([...new Set(packages)].sort(), Object.keys((await listed()).dependencies).sort())
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

test('an installation from git, for which npm runs `prepare` alone, makes all that the package holds', async (t) => {
  const { scripts } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  t.same(
    Object.keys(scripts).filter((name) => /^(?:prepack|prepublish|prepublishOnly)$/.test(name)),
    [],
    'nothing is made only for whoever packs',
  )
  const folder = await temporaryFolder(t)
  const says = (name: string) => `node -e "fs.appendFileSync('made', '${name} ')"`
  const manifest = { type: 'module', scripts: { build: says('program'), types: says('declarations') } }
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest))
  await mkdir(join(folder, 'node_modules/typescript'), { recursive: true })
  await mkdir(join(folder, 'bin'))
  await writeFile(join(folder, 'bin/tap'), '#!/bin/sh\n', { mode: 0o755 })
  const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` }
  await run(process.execPath, [join(ROOT, 'prepare.js')], { cwd: folder, env })
  t.equal(await readFile(join(folder, 'made'), 'utf8'), 'program declarations ')
})
