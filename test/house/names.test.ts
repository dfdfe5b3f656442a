import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { test } from 'tap'
import { ROOT, sourceFiles, textOf } from './support/graph.js'

/** What a file exports, by name. */
function exportsOf(file: string): string[] {
  const text = textOf(file)
  const single = [...text.matchAll(/^export (?:async )?(?:function\*?|const|let|class|type) (\w+)/gm)]
  const several = [...text.matchAll(/^export const \{([^}]*)\}/gm)].flatMap(([, names = '']) =>
    names.split(',').map((name) => name.split(':').at(-1)?.trim() ?? ''),
  )
  return [...new Set([...single.map(([, name = '']) => name), ...several])]
}

/** Every `file name` that some other file imports; `file *` where it is imported as a whole. */
function imported(): Set<string> {
  const found = new Set<string>()
  for (const folder of ['src', 'test', 'bench', 'sandbox']) {
    const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    for (const file of files.filter((name) => /^(?!.*node_modules).*\.[tj]s$/.test(name))) {
      const text = readFileSync(join(ROOT, folder, file), 'utf8')
      const target = (specifier: string) =>
        relative(join(ROOT, 'src'), resolve(ROOT, folder, dirname(file), specifier)).replace(/js$/, 'ts')
      for (const [, names = '', from = ''] of text.matchAll(
        /(?:import|export)\s+(?:type\s+)?\{([^}]*)\}\s*from\s*'(\.[^']+)'/g,
      )) {
        for (const name of names.split(',')) {
          found.add(
            `${target(from)} ${
              name
                .replace(/^\s*type\s/, '')
                .trim()
                .split(' as ')[0]
            }`,
          )
        }
      }
      for (const [, from = ''] of text.matchAll(/(?:import\(|import \* as \w+ from )\s*'(\.[^']+)'/g)) {
        found.add(`${target(from)} *`)
      }
    }
  }
  return found
}

test('no two exports have one name: whoever searches for a name finds what it means', async (t) => {
  const places = new Map<string, string[]>()
  for (const file of sourceFiles()) {
    for (const name of exportsOf(file)) places.set(name, [...(places.get(name) ?? []), file])
  }
  t.ok(places.size > 500)
  t.same(
    [...places].filter(([, files]) => files.length > 1),
    [],
  )
})

test('a file exports only what another file reads', async (t) => {
  const used = imported()
  const unread = sourceFiles().flatMap((file) =>
    used.has(`${file} *`)
      ? []
      : exportsOf(file)
          .filter((name) => !used.has(`${file} ${name}`))
          .map((name) => `${file} ${name}`),
  )
  t.same(unread, [])
})
