import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')
const src = join(root, 'src')

/** Data travels one way: a room imports only itself and the rooms to its left (docs/house.md). */
const ROOMS: readonly string[] = [
  'adcp',
  'threads',
  'net',
  'signing',
  'upstreams',
  'authz',
  'merge',
  'snapshot',
  'feed',
  'search',
  'store',
  'config',
  'activation',
  'events',
  'briefs',
  'tasks',
  'server',
  'console',
]
/** What puts the rooms together, and may know them all; no room knows it. */
const COMPOSITION = ['top', 'commands', 'composition', 'explain', 'operations']
const PURE = ['merge', 'snapshot', 'feed', 'search']
/** What a pure room may take from Node: computing, and the thread that computes. */
const PURE_MODULES = ['node:crypto', 'node:zlib', 'node:worker_threads', 'node:buffer', 'node:url']
const CLOCKS =
  /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bMath\.random\(|\bsetTimeout\(|\bsetInterval\(/

type Import = { file: string; room: string; specifier: string; target: string | undefined }

async function sources(): Promise<string[]> {
  const entries = await readdir(src, { recursive: true })
  return entries.filter((entry) => entry.endsWith('.ts')).sort()
}

const roomOf = (path: string) => (path.includes(sep) ? (path.split(sep)[0] as string) : 'top')

function importsOf(file: string, text: string): Import[] {
  const found = [...text.matchAll(/\b(?:from|import)\s*\(?\s*'([^']+)'/g)].map((match) => match[1] as string)
  return found.map((specifier) => {
    const target = specifier.startsWith('.')
      ? roomOf(relative(src, resolve(src, dirname(file), specifier)))
      : undefined
    return { file, room: roomOf(file), specifier, target }
  })
}

function mayImport(room: string, target: string): boolean {
  if (room === target || COMPOSITION.includes(room)) return true
  const left = ROOMS.slice(0, ROOMS.indexOf(room))
  return left.includes(target)
}

test('every room imports only itself and the rooms to its left', async (t) => {
  const files = await sources()
  const imports = (
    await Promise.all(files.map(async (file) => importsOf(file, await readFile(join(src, file), 'utf8'))))
  ).flat()
  t.ok(imports.length > 0)
  const wrong = imports.filter(({ room, target }) => target !== undefined && !mayImport(room, target))
  t.same(wrong, [])
})

test('the demo world knows the words of the protocol and nothing else of the product', async (t) => {
  const folder = join(root, 'sandbox')
  const files = (await readdir(folder)).filter((name) => name.endsWith('.ts'))
  t.ok(files.length > 0)
  for (const file of files) {
    const text = await readFile(join(folder, file), 'utf8')
    const outside = [...text.matchAll(/from '(\.\.\/[^']+)'/g)].map(([, specifier]) => specifier)
    t.same(
      outside.filter((specifier) => !specifier?.startsWith('../src/adcp/')),
      [],
      file,
    )
  }
})

test('merge, snapshot, feed and search do no I/O and read no clock', async (t) => {
  const files = (await sources()).filter((file) => PURE.includes(roomOf(file)))
  t.ok(files.length > 0)
  for (const file of files) {
    const text = await readFile(join(src, file), 'utf8')
    const builtin = importsOf(file, text).filter(({ specifier }) => specifier.startsWith('node:'))
    t.same(
      builtin.filter(({ specifier }) => !PURE_MODULES.includes(specifier)),
      [],
      `${file} takes only computing from Node`,
    )
    t.notMatch(text, CLOCKS, `${file} reads no clock and no chance`)
    t.same(
      importsOf(file, text).filter(({ target }) => target === 'net'),
      [],
      `${file} does not reach the network`,
    )
  }
})

test('a source file is one noun: none is longer than 400 lines', async (t) => {
  for (const file of await sources()) {
    const lines = (await readFile(join(src, file), 'utf8')).split('\n').length
    t.ok(lines <= 401, `${file} has ${lines} lines`)
  }
})
