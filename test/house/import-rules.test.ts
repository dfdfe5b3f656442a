import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'tap'
import { circles, drawing, edges, importsOf, ROOT, roomOf, sourceFiles, textOf } from './support/graph.js'
import { ROOMS } from './support/rooms.js'

const PURE = ['merge', 'snapshot', 'feed', 'search']
/** What a pure room may take from Node: computing, and the thread that computes. */
const PURE_MODULES = ['node:crypto', 'node:zlib', 'node:worker_threads', 'node:buffer', 'node:url']
const CLOCKS =
  /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bMath\.random\(|\bsetTimeout\(|\bsetInterval\(/

test('every room is known, and imports only rooms before it', async (t) => {
  const files = sourceFiles()
  t.ok(files.length > 0)
  for (const file of files) {
    const place = ROOMS.indexOf(roomOf(file))
    t.ok(place >= 0, `${file} lies in a room of the list`)
    const wrong = importsOf(file).filter(({ target }) => {
      return target !== undefined && !target.startsWith('..') && ROOMS.indexOf(roomOf(target)) > place
    })
    t.same(wrong, [], file)
  }
})

test('what puts the parts together is imported by the command line alone', async (t) => {
  for (const file of sourceFiles()) {
    const known = importsOf(file).filter(({ target }) => target && roomOf(target) === 'composition')
    t.ok(known.length === 0 || ['composition', 'commands'].includes(roomOf(file)), file)
  }
})

test('no two folders import each other, directly or in a circle, and no two files do', async (t) => {
  t.same(circles(edges(dirname)), [], 'folders')
  t.same(circles(edges((file) => file)), [], 'files')
})

test('the demo world is reached from one place only', async (t) => {
  const outside = sourceFiles()
    .flatMap(importsOf)
    .filter(({ target }) => target?.startsWith('..'))
  t.same(
    outside.map(({ file }) => file),
    ['composition/foundation.ts'],
  )
})

test('docs/house.md shows the drawing of what imports what', async (t) => {
  const page = await readFile(join(ROOT, 'docs/house.md'), 'utf8')
  const shown = /```\n(main [\s\S]*?)\n```/.exec(page)?.[1]
  t.equal(shown, drawing(ROOMS), 'else: node dist/test/house/support/draw.js')
  const table = ROOMS.filter((room) => !page.includes(`| \`${room}\` |`))
  t.same(table, [], 'each room has its row in the table')
})

test('the demo world knows the words of the protocol and nothing else of the product', async (t) => {
  const folder = join(ROOT, 'sandbox')
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

test('each way through the house leads from file to file, and back into no room', async (t) => {
  const page = await readFile(join(ROOT, 'docs/house.md'), 'utf8')
  const ways = [...page.matchAll(/^\*\*(.*?)\*\*.*:\n\n((?:\d\. .*\n)+)/gm)]
  t.same(
    ways.map(([, name]) => name),
    ['A request', 'A page walk', 'A verdict', 'A setting'],
  )
  const files = new Set(sourceFiles())
  const knows = (one: string, other: string) => importsOf(one).some(({ target }) => target === other)
  for (const [, name, list = ''] of ways) {
    const way = [...list.matchAll(/^\d\. `([^`]+)`/gm)].map(([, file = '']) => file)
    t.ok(way.length > 1 && way.length <= 7, `${name}: at most seven files`)
    t.same(
      way.filter((file) => !files.has(file)),
      [],
      `${name}: each file is there`,
    )
    for (const [at, file] of way.slice(1).entries()) {
      const before = way[at] as string
      if (files.has(file) && files.has(before)) {
        t.ok(knows(before, file) || knows(file, before), `${name}: from ${before} to ${file}`)
      }
    }
    const rooms = way.map(roomOf).filter((room, at, all) => room !== all[at - 1])
    t.equal(new Set(rooms).size, rooms.length, `${name}: no room twice`)
    t.equal(new Set(way).size, way.length, `${name}: no file twice`)
  }
})

test('merge, snapshot, feed and search do no I/O and read no clock', async (t) => {
  const files = sourceFiles().filter((file) => PURE.includes(roomOf(file)))
  t.ok(files.length > 0)
  for (const file of files) {
    const imports = importsOf(file)
    const builtin = imports.filter(({ specifier }) => specifier.startsWith('node:'))
    t.same(
      builtin.filter(({ specifier }) => !PURE_MODULES.includes(specifier)),
      [],
      `${file} takes only computing from Node`,
    )
    t.notMatch(textOf(file), CLOCKS, `${file} reads no clock and no chance`)
    t.same(
      imports.filter(({ target }) => target !== undefined && roomOf(target) === 'net'),
      [],
      `${file} does not reach the network`,
    )
  }
})
