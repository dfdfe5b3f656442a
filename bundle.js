/**
 * Puts the compiled program and the packages that it imports into one file, and what each thread needs into one more,
 * `dist/program`: Node spends most of a start on finding, opening, linking and compiling eight hundred of them
 * (docs/decisions.md#what-is-loaded-when). `npm run build` runs this after the compiler.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, sep } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { compiled } from './start.js'

const ROOT = fileURLToPath(new URL('.', import.meta.url))
const COMPILED = join(ROOT, 'dist/src')
const PROGRAM = join(ROOT, 'dist/program')
const STARTED = join(ROOT, 'dist/started')

/** The code of each thread: who starts one names its file. */
const THREADS = [
  'authz/provider/inspector',
  'config/reader',
  'events/courier-thread',
  'search/search-index',
  'snapshot/build-worker',
  'store/blob-files',
  'store/database/sqlite-thread',
  'upstreams/agent/answer',
]

/** What is run or imported from outside (program.js), which is all in one file. */
const OUTSIDE = {
  main: `import { holdSignals } from './early-signals.js'

holdSignals()
start('program').commandLine()`,
  'mirror/mirror': `const { mirror } = start('program')
export const openFeedMirror = async (options) => (await mirror()).openFeedMirror(options)`,
}

/**
 * Native code, what looks for such, and the one package that whoever traces has to share with us: they are installed with
 * the program, and nothing else is.
 */
const { dependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))

/** Where the program lies, for whoever finds a file by its own place. */
const HERE = "const HERE = require('node:url').pathToFileURL(__filename).href;"

/** Who loads what is named only then: start.js, since the engine forgets that for the code which it kept. */
const LOAD = '(module.importNamed ?? ((url) => import(url)))('

/** Files of packages that the page loads, by the name that it imports them under. */
const LIBRARIES = {
  'preact.js': 'preact/dist/preact.mjs',
  'hooks.js': 'preact/hooks/dist/hooks.mjs',
  'htm.js': 'htm/dist/htm.module.js',
  'uplot.js': 'uplot/dist/uPlot.esm.js',
  'uplot.css': 'uplot/dist/uPlot.min.css',
}

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

/** prom-client asks OpenTelemetry for its exemplars. We have none, and those are fifty files that every start would read. */
const exemplars = {
  name: 'exemplars',
  setup(bundling) {
    bundling.onLoad({ filter: /prom-client\/lib\/metrics\/processCpuTotal\.js$/ }, async ({ path }) => ({
      contents: (await readFile(path, 'utf8')).replace("require('@opentelemetry/api')", 'undefined'),
    }))
  },
}

/**
 * ASCII alone, as start.js reads a file: other characters take the engine twice as long. The bundler leaves them in comments, and in
 * regular expressions and raw texts of such, where an escape says the same.
 */
const inAscii = (text) =>
  text.replace(/(\\*)([^\0-\x7f])/g, (_, slashes, unit) => {
    const before = slashes.slice(slashes.length % 2) // an escaped character is one that is not
    return `${before}\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  })

/** Browsers resolve no package names, so the name `preact` in the hooks module becomes the path of its file. */
const withPaths = (text) => text.replace(/from\s*(["'])preact\1/g, 'from"./preact.js"')

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

/** Writes the file that others name as the program's or as a thread's: it runs the one that holds the code. */
async function named(entry, use) {
  const file = join(PROGRAM, `${entry}.js`)
  const up = '../'.repeat(entry.split('/').length - 1) || './'
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, `#!/usr/bin/env node\nimport { start } from '${up}start.js'\n\n${use}\n`, {
    mode: 0o755,
  })
}

/**
 * Serves the demo world until it is there: the engine compiles a function when it is first called, and keeps those that a start
 * calls.
 */
async function keepStarted() {
  await rm(STARTED, { recursive: true, force: true }) // of a build that was killed
  await mkdir(STARTED)
  const serve = [join(ROOT, 'keep.js'), 'serve', '--port', '0', '--sandbox-signals', '24']
  const server = spawn(process.execPath, serve, { cwd: STARTED, env: {} })
  const log = text(server.stderr)
  server.stdout.once('data', () => server.stdin.end())
  const [code] = await once(server, 'exit')
  if (code !== 0) throw new Error(`The program that was built does not serve:\n${await log}`)
  await rm(STARTED, { recursive: true })
}

await rm(PROGRAM, { recursive: true, force: true })
await mkdir(PROGRAM, { recursive: true })
const { metafile, outputFiles } = await build({
  absWorkingDir: ROOT,
  entryPoints: [join(ROOT, 'program.js'), ...THREADS.map((thread) => join(COMPILED, `${thread}.js`))],
  ...{ outdir: PROGRAM, entryNames: '[name]', outExtension: { '.js': '.cjs' } },
  ...{ bundle: true, format: 'cjs', platform: 'node', target: 'node20' },
  ...{ external: Object.keys(dependencies), plugins: [places, exemplars], banner: { js: HERE } },
  ...{
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
    metafile: true,
    write: false,
    logLevel: 'warning',
  },
})
for (const { path, text } of outputFiles) {
  await writeFile(path, path.endsWith('.cjs') ? inAscii(text) : text)
}
const inputs = Object.keys(metafile.inputs)
await copyFile(join(ROOT, 'start.js'), join(PROGRAM, 'start.js'))
await copyFile(join(COMPILED, 'process/early-signals.js'), join(PROGRAM, 'early-signals.js'))
for (const thread of THREADS) compiled(join(PROGRAM, `${basename(thread)}.cjs`)).keep()
for (const thread of THREADS) await named(thread, `start('${basename(thread)}')`)
for (const [entry, use] of Object.entries(OUTSIDE)) await named(entry, use)
await mkdir(join(PROGRAM, 'libraries'))
for (const [name, from] of Object.entries(LIBRARIES)) {
  const file = join('node_modules', from)
  await writeFile(join(PROGRAM, 'libraries', name), withPaths(await readFile(join(ROOT, file), 'utf8')))
  inputs.push(file)
}
await writeFile(join(PROGRAM, 'licenses.txt'), await licenses(inputs))
await keepStarted()
