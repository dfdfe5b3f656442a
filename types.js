/**
 * Of the declarations that the compiler wrote for the published entry point, leaves those that its types lead to: the others
 * are of files that it merely runs. `npm run types` runs this after the compiler.
 */
import { readdir, readFile, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'

const TYPES = resolve('dist/types')

const reached = new Set([join(TYPES, 'mirror/mirror.d.ts')])
for (const file of reached) {
  const text = await readFile(file, 'utf8')
  for (const [, specifier] of text.matchAll(/\b(?:from|import\()\s*['"](\.[^'"]+)\.js['"]/g))
    reached.add(resolve(dirname(file), `${specifier}.d.ts`))
}
for (const name of await readdir(TYPES, { recursive: true })) {
  const file = join(TYPES, name)
  if (file.endsWith('.d.ts') && !reached.has(file)) await rm(file)
}
