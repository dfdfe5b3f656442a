/**
 * Puts the compiled program and the packages that it imports into one file, and what each thread needs into one more,
 * `dist/program`: Node spends most of a start on finding, opening, linking and compiling eight hundred of them
 * (docs/decisions.md#what-is-loaded-when). `npm run build` runs this after the compiler.
 */
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { compiled } from './start.js'

const ROOT = fileURLToPath(new URL('.', import.meta.url))
const COMPILED = join(ROOT, 'dist/src')
const PROGRAM = join(ROOT, 'dist/program')

/** The command line, and the code of each thread: who starts one names its file. */
const ENTRIES = [
  'main',
  'authz/provider/inspector',
  'search/search-index',
  'snapshot/build-worker',
  'store/blob-files',
  'store/database/sqlite-thread',
  'upstreams/agent/answer',
]

/** Native code, what looks for such, and the one package that whoever traces has to share with us. */
const LEFT_OUT = ['libsql', 'pg', '@opentelemetry/api']

/** Where the program lies, for whoever finds a file by its own place. */
const HERE = "const HERE = require('node:url').pathToFileURL(__filename).href;"

/** Who loads what is named only then: start.js, since the engine forgets that for the code which it kept. */
const LOAD = '(module.load ?? ((url) => import(url)))('

/** A file finds its neighbours by its own address. All code lies at the top of the program: it names the place that the file would have. */
function placed(file, text) {
  const place = `new URL('./${relative(COMPILED, file).replaceAll(sep, '/')}', HERE).href`
  return text
    .replace(/^#!.*/, '')
    .replace('const require = createRequire(import.meta.url);', '') // there is one
    .replaceAll(/\bimport\((?![\s'"`])/g, LOAD)
    .replaceAll('import.meta.url', place)
}

const places = {
  name: 'places',
  setup(bundling) {
    bundling.onLoad({ filter: /\.js$/ }, async ({ path }) =>
      path.startsWith(COMPILED) ? { contents: placed(path, await readFile(path, 'utf8')) } : undefined,
    )
  },
}

/** The licenses of the packages whose code was put into the program. */
async function licenses(inputs) {
  const folders = new Set(inputs.flatMap((input) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input) ?? []))
  const texts = await Promise.all(
    [...folders].sort().map(async (folder) => {
      const files = (await readdir(join(ROOT, folder))).filter((file) => /^(?:licen[cs]e|notice)/i.test(file))
      const said = await Promise.all(files.map((file) => readFile(join(ROOT, folder, file), 'utf8')))
      const { name, version, license } = JSON.parse(
        await readFile(join(ROOT, folder, 'package.json'), 'utf8'),
      )
      return `${name} ${version} (${license})\n\n${said.join('\n')}`
    }),
  )
  return texts.join(`\n${'-'.repeat(80)}\n`)
}

/** The file that is named as the program's, or as a thread's: it runs the one that holds the code. */
function starting(entry) {
  const up = '../'.repeat(entry.split('/').length - 1) || './'
  return `#!/usr/bin/env node\nimport { start } from '${up}start.js'\n\nstart('${basename(entry)}')\n`
}

await rm(PROGRAM, { recursive: true, force: true })
const { metafile } = await build({
  absWorkingDir: ROOT,
  entryPoints: ENTRIES.map((entry) => join(COMPILED, `${entry}.js`)),
  ...{ outdir: PROGRAM, entryNames: '[name]', outExtension: { '.js': '.cjs' } },
  ...{ bundle: true, format: 'cjs', platform: 'node', target: 'node20' },
  ...{ external: LEFT_OUT, plugins: [places], banner: { js: HERE } },
  ...{
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
  },
})
await copyFile(join(ROOT, 'start.js'), join(PROGRAM, 'start.js'))
for (const entry of ENTRIES) {
  const file = join(PROGRAM, `${entry}.js`)
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, starting(entry), { mode: 0o755 })
  compiled(join(PROGRAM, `${basename(entry)}.cjs`)).keep()
}
await writeFile(join(PROGRAM, 'licenses.txt'), await licenses(Object.keys(metafile.inputs)))
