import { readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { test } from 'tap'
import { ROOT, sourceFiles, textOf } from './support/graph.js'

const COMPILED = join(ROOT, 'dist/src')

/** The packages that are loaded with a compiled file: by it and all that it imports, without what is imported later. */
function packagesOf(entry: string): string[] {
  const packages = new Set<string>()
  const files = new Set([join(COMPILED, entry)])
  for (const file of files) {
    const text = readFileSync(file, 'utf8')
    for (const [, specifier = ''] of text.matchAll(/^(?:import|export|\}) (?:[^'"]* )?from '([^']+)';$/gm)) {
      if (specifier.startsWith('.')) files.add(resolve(dirname(file), specifier))
      else if (!specifier.startsWith('node:')) packages.add(specifier)
    }
  }
  return [...packages].sort()
}

test('a thread loads the packages that its work needs, and no validator before there is something to check', async (t) => {
  t.same(packagesOf('snapshot/build-worker.js'), ['lru-cache'])
  t.same(packagesOf('search/search-index.js'), [])
  t.same(packagesOf('authz/provider/inspector.js'), [])
  t.same(packagesOf('upstreams/agent/answer.js'), [])
  t.same(packagesOf('store/blob-files.js'), [])
  t.same(packagesOf('store/database/sqlite-thread.js'), ['libsql'])
})

test('the program holds the code of every thread where who starts it looks for it', async (t) => {
  const named = sourceFiles().flatMap((file) =>
    [...textOf(file).matchAll(/new URL\('(\.\/[\w-]+)\.js', import\.meta\.url\)/g)].map(([, name = '']) =>
      join(dirname(file), name),
    ),
  )
  const bundled = readFileSync(join(ROOT, 'bundle.js'), 'utf8')
  const [, entries = ''] = /^const THREADS = \[(.*?)\]/ms.exec(bundled) ?? []
  t.same(entries.match(/(?<=')[\w/-]+(?=')/g)?.sort(), named.sort())
})

test('a server starts without the packages of what is asked rarely, or of what is not configured', async (t) => {
  const loaded = packagesOf('commands/serve.js')
  t.ok(loaded.includes('fastify'), 'the walk sees packages')
  const later = loaded.filter((name) =>
    /^(?:@modelcontextprotocol|@a2a-js|@opentelemetry|@sinclair|ajv|zod|jose|pg)\b/.test(name),
  )
  t.same(later, [])
})
