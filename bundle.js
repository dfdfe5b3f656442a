/**
 * Puts the compiled program and the packages that it imports into few files, `dist/program`: Node spends most of a start
 * on finding, opening and linking eight hundred of them (docs/decisions.md#what-is-loaded-when). What is loaded late
 * stays a file of its own, and each thread loads what it needs. `npm run build` runs this after the compiler.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const ROOT = fileURLToPath(new URL('.', import.meta.url))
const COMPILED = join(ROOT, 'dist/src')
const PROGRAM = join(ROOT, 'dist/program')

/** The command line, and the code of each thread: who starts one names its file. */
const ENTRIES = [
  'main',
  'authz/provider/inspect-worker',
  'search/search-worker',
  'snapshot/build-worker',
  'store/blobs/checksum-worker',
  'store/database/sqlite-thread',
  'upstreams/agent/reading-worker',
]

/** Native code, what looks for such, and the one package that whoever traces has to share with us. */
const LEFT_OUT = ['libsql', 'pg', '@opentelemetry/api']

/** Packages of CommonJS ask for Node's modules with `require`. */
const REQUIRE =
  "import { createRequire as toRequire } from 'node:module'; const require = toRequire(import.meta.url);"

/**
 * A file finds its neighbours by its own address. All shared code lies at the top of the program, so there it names the
 * place that the file would have.
 */
function placed(file, text) {
  const place = `new URL('./${relative(COMPILED, file).replaceAll(sep, '/')}', import.meta.url).href`
  return text
    .replace('const require = createRequire(import.meta.url);', '') // it is everywhere: REQUIRE
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

await rm(PROGRAM, { recursive: true, force: true })
const { metafile } = await build({
  absWorkingDir: ROOT,
  entryPoints: ENTRIES.map((entry) => join(COMPILED, `${entry}.js`)),
  ...{ outbase: COMPILED, outdir: PROGRAM, chunkNames: '[name]-[hash]' },
  ...{ bundle: true, splitting: true, format: 'esm', platform: 'node', target: 'node20' },
  ...{ external: LEFT_OUT, plugins: [places], banner: { js: REQUIRE } },
  ...{
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
    metafile: true,
    logLevel: 'warning',
  },
})
await writeFile(join(PROGRAM, 'licenses.txt'), await licenses(Object.keys(metafile.inputs)))
