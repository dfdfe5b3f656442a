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

test('every link between documents leads somewhere, to a heading that is there', async (t) => {
  const wrong: string[] = []
  for (const page of [...(await pages()), 'CONTRIBUTING.md', 'SECURITY.md']) {
    const text = await readFile(join(root, page), 'utf8')
    for (const [, target = '', anchor] of text.matchAll(/\]\(([^)#\s]*)(?:#([^)]*))?\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const file = target === '' ? page : join(dirname(page), target)
      const leads = existsSync(join(root, file)) && (!anchor || (await anchorsOf(file)).has(anchor))
      if (!leads) wrong.push(`${page} -> ${target}#${anchor ?? ''}`)
    }
  }
  t.same(wrong, [])
})

/** The anchors of a page's headings, as the usual renderers make them. */
async function anchorsOf(page: string): Promise<Set<string>> {
  const text = await readFile(join(root, page), 'utf8')
  const slug = (heading: string) =>
    heading
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-')
  return new Set([...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => slug(heading)))
}

test('every document and heading that a source file cites is there', async (t) => {
  const wrong: string[] = []
  for (const folder of ['src', 'test', 'bench']) {
    const names = (await readdir(join(root, folder), { recursive: true })).filter((name) =>
      /\.ts$/.test(name),
    )
    for (const file of names) {
      const text = await readFile(join(root, folder, file), 'utf8')
      for (const [cited, page = '', anchors = ''] of text.matchAll(
        /(docs\/[\w/-]+\.md)((?:#[a-z0-9-]+(?:, (?=#))?)*)/g,
      )) {
        const known = existsSync(join(root, page)) ? await anchorsOf(page) : undefined
        const named = anchors ? anchors.split(', ') : []
        const isThere = known && named.every((anchor) => known.has(anchor.slice(1)))
        if (!isThere) wrong.push(`${folder}/${file} cites ${cited}`)
      }
    }
  }
  t.same(wrong, [])
})

test('every source file that a comment or a page names is there', async (t) => {
  const wrong: string[] = []
  const exists = (from: string, cited: string) =>
    ['', 'src', 'sandbox', 'test', dirname(from)].some((folder) => existsSync(join(root, folder, cited)))
  const texts: string[] = [...(await pages()), 'CONTRIBUTING.md']
  for (const folder of ['src', 'test', 'bench', 'sandbox']) {
    const names = await readdir(join(root, folder), { recursive: true })
    texts.push(
      ...names.filter((name) => /^(?!.*node_modules).*\.ts$/.test(name)).map((name) => join(folder, name)),
    )
  }
  for (const from of texts) {
    const text = await readFile(join(root, from), 'utf8')
    const comments = from.endsWith('.md') ? [text] : (text.match(/\/\*[\s\S]*?\*\/|\/\/.*$/gm) ?? [])
    for (const [cited] of comments.join('\n').matchAll(/(?<![\w./-])(?:[a-z0-9-]+\/)+[a-z0-9.-]+\.ts\b/g)) {
      if (!exists(from, cited)) wrong.push(`${from} names ${cited}`)
    }
  }
  t.same(wrong, [])
})

test('every table has the line under its header without which it is no table', async (t) => {
  const wrong: string[] = []
  for (const page of [...(await pages()), 'CONTRIBUTING.md']) {
    const lines = (await readFile(join(root, page), 'utf8')).replace(/^```[\s\S]*?^```$/gm, '').split('\n')
    lines.forEach((line, at) => {
      const isHeader = line.startsWith('|') && !lines[at - 1]?.startsWith('|')
      if (isHeader && !/^\|[\s:|-]+\|$/.test(lines[at + 1] ?? '')) wrong.push(`${page}: ${line}`)
    })
  }
  t.same(wrong, [])
})

test('every measured cell of docs/performance.md holds what was measured', async (t) => {
  const text = await readFile(join(root, 'docs/performance.md'), 'utf8')
  const measured = text.split('\n\n').flatMap((part) => {
    const [header = '', , ...rows] = part
      .split('\n')
      .map((line) => line.split('|').map((cell) => cell.trim()))
    return header.includes('measured') ? rows.map((cells) => cells[header.indexOf('measured')]) : []
  })
  t.ok(measured.length >= 80, `${measured.length} cells`)
  t.same(
    measured.filter((cell) => !/^(none$|just above \d|\d)/.test(cell ?? '')),
    [],
  )
})

test('every name of code that CONTRIBUTING gives is in the code', async (t) => {
  const text = await readFile(join(root, 'CONTRIBUTING.md'), 'utf8')
  const names = [...text.matchAll(/`([A-Za-z]\w*(?:_\w+)+|[A-Z]{3,}|[A-Za-z]+[a-z][A-Z]\w*)`/g)].map(
    ([, name = '']) => name,
  )
  t.ok(names.length >= 5, names.join())
  const code = await readdir(join(root, 'src'), { recursive: true })
  const files = code
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFile(join(root, 'src', name), 'utf8'))
  const all = (await Promise.all(files)).join('\n')
  t.same(
    names.filter((name) => !new RegExp(`\\b${name}\\b`).test(all)),
    [],
  )
})

test('nothing cites what is not in the repository', async (t) => {
  const wrong: string[] = []
  for (const folder of ['src', 'test', 'bench', 'docs', 'conformance', 'browser']) {
    const names = (await readdir(join(root, folder), { recursive: true })).filter((name) =>
      /^(?!.*node_modules).*\.(ts|js|md)$/.test(name),
    )
    for (const name of names) {
      const text = await readFile(join(root, folder, name), 'utf8')
      if (/\b(DESIGN|FACTS|SCOUTING|EVENTS) ?[0-9A-F(,"]/.test(text)) wrong.push(`${folder}/${name}`)
    }
  }
  t.same(wrong, [])
})

test('the README fits a page and shows the two commands', async (t) => {
  const text = await readFile(join(root, 'README.md'), 'utf8')
  t.match(text, /^npm ci && npm start$/m)
  t.match(text, /^npm ci && npm test$/m)
  t.ok(text.split('\n').length < 110, `${text.split('\n').length} lines`)
})
