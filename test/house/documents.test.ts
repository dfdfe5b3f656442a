import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')

async function pages(): Promise<string[]> {
  const docs = await readdir(join(root, 'docs'), { recursive: true })
  return ['README.md', ...docs.filter((name) => name.endsWith('.md')).map((name) => join('docs', name))]
}

test('every link between documents leads somewhere', async (t) => {
  for (const page of await pages()) {
    const text = await readFile(join(root, page), 'utf8')
    for (const [, target = ''] of text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      t.ok(existsSync(resolve(root, dirname(page), target)), `${page} -> ${target}`)
    }
  }
})

test('every document that a source file cites is there', async (t) => {
  const sources = (await readdir(join(root, 'src'), { recursive: true })).filter((name) =>
    name.endsWith('.ts'),
  )
  for (const file of sources) {
    const text = await readFile(join(root, 'src', file), 'utf8')
    for (const [cited] of text.matchAll(/docs\/[\w/-]+\.md/g)) {
      t.ok(existsSync(join(root, cited)), `src/${file} cites ${cited}`)
    }
  }
})

test('the README fits a page and shows the two commands', async (t) => {
  const text = await readFile(join(root, 'README.md'), 'utf8')
  t.match(text, /^npm ci && npm start$/m)
  t.match(text, /^npm ci && npm test$/m)
  t.ok(text.split('\n').length < 100, `${text.split('\n').length} lines`)
})
