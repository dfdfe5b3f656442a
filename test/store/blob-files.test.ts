import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { openBlobFiles } from '../../src/store/blob-files.js'

async function fresh(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-blobs-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const damage: string[] = []
  const open = () => openBlobFiles({ folder, onDamage: (name, reason) => damage.push(`${name}: ${reason}`) })
  return { folder, damage, open }
}

const bytes = (text: string) => new TextEncoder().encode(text)
const texts = (parts: Uint8Array[] | undefined) => parts?.map((part) => Buffer.from(part).toString())

test('a damaged file is ignored and named, wherever the damage is', async (t) => {
  const { folder, damage, open } = await fresh(t)
  const blobs = await open()
  await blobs.write('roster', [bytes('x'.repeat(500))])
  const [file] = await readdir(folder)
  const path = join(folder, file as string)
  const good = await readFile(path)
  for (let at = 0; at < good.byteLength; at += 37) {
    const bad = Buffer.from(good)
    bad[at] = (bad[at] as number) ^ 0x40
    await writeFile(path, bad)
    t.equal(await blobs.read('roster'), undefined, `byte ${at} flipped`)
    await writeFile(path, good.subarray(0, at))
    t.equal(await blobs.read('roster'), undefined, `cut at byte ${at}`)
  }
  t.equal(damage.length, Math.ceil(good.byteLength / 37) * 2)
  await writeFile(path, good)
  t.same(texts(await blobs.read('roster')), ['x'.repeat(500)])
})

test('of a blob that is still read each part is known to be whole or not, and the damage is told once', async (t) => {
  const { folder, damage, open } = await fresh(t)
  const blobs = await open()
  const parts = ['a', 'b', 'c', 'd'].map((letter) => bytes(letter.repeat(50_000))) // more than what is read at first
  await blobs.write('feed', parts)
  const path = join(folder, 'feed.blob')
  const written = await readFile(path)
  for (const letter of ['b', 'd']) written[written.indexOf(letter.repeat(500)) + 700] = 0
  await writeFile(path, written)
  const begun = (await blobs.begin('feed')) ?? []
  t.same(await Promise.all(begun.map(({ isWhole }) => isWhole)), [true, false, true, false])
  t.same([begun[0]?.bytes, begun[2]?.bytes], [parts[0], parts[2]])
  t.same(damage, ['feed: a checksum does not match'])
  t.equal(await blobs.read('feed'), undefined)
  t.equal(await blobs.begin('none'), undefined)
})

test('of a blob that is still read a part that somebody waits for comes before the others', async (t) => {
  const { open } = await fresh(t)
  const blobs = await open()
  const parts = Array.from({ length: 20 }, (_, at) => new Uint8Array(100_000).fill(at))
  await blobs.write('feed', parts)
  const begun = (await blobs.begin('feed')) ?? []
  begun[17]?.hasten()
  const came: number[] = []
  const all = begun.map(({ isWhole }, at) => isWhole.then((is) => is && came.push(at)))
  begun[0]?.hasten() // being read
  await Promise.all(all)
  t.ok(came.indexOf(17) < 10, `in this order: ${came}`)
  t.same(
    begun.map(({ bytes }) => bytes),
    parts,
  )
})

test('a file in the place of another is ignored and named, whatever their names', async (t) => {
  const { folder, damage, open } = await fresh(t)
  const blobs = await open()
  const path = (file: string) => join(folder, file)
  for (const length of [1, 300]) {
    const [one, other] = ['a', 'b'].map((letter) => letter.repeat(length)) as [string, string]
    for (const name of [one, other]) await blobs.write(name, [bytes(name)])
    const [first, second] = (await readdir(folder)).sort() as [string, string]
    await rename(path(first), path('aside'))
    await rename(path(second), path(first))
    await rename(path('aside'), path(second))
    for (const name of [one, other]) t.equal(await blobs.read(name), undefined)
    t.same(damage.splice(0), [`${one}: it was written as ${other}`, `${other}: it was written as ${one}`])
    await blobs.write(one, [bytes('new')])
    t.same(texts(await blobs.read(one)), ['new'], 'what is written next counts')
    await rm(path(first))
    await rm(path(second))
  }
})

test('what something else put into the folder is no blob, and what the disk does not give is ignored', async (t) => {
  const { folder, damage, open } = await fresh(t)
  const blobs = await open()
  await blobs.write('doc', [bytes('kept')])
  await writeFile(join(folder, '50%.blob'), 'not an escaped name')
  await writeFile(join(folder, 'do c.blob'), 'a name that is escaped otherwise')
  for (const file of ['roster.blob', 'slice+of.blob']) await mkdir(join(folder, file))
  await symlink(join(folder, 'nowhere'), join(folder, 'slice+gone.blob'))
  t.same(await blobs.list('d'), ['doc'])
  t.same(await blobs.list('slice'), [])
  t.equal(await blobs.read('roster'), undefined)
  t.match(damage, [/^roster: it cannot be read \(EISDIR/])
  t.same(texts(await blobs.read('doc')), ['kept'])
})

test('a pipe, a device or a socket in the place of a file is not waited for', async (t) => {
  const { folder, damage, open } = await fresh(t)
  const blobs = await open()
  const path = (file: string) => join(folder, file)
  execFileSync('mkfifo', [path('pipe.blob'), path('slice+of.blob')])
  await symlink('/dev/zero', path('device.blob'))
  const server = createServer().listen(path('socket.blob'))
  await once(server, 'listening')
  t.teardown(() => server.close())
  t.same(await blobs.list('slice'), [])
  for (const name of ['pipe', 'device', 'socket']) t.equal(await blobs.read(name), undefined)
  t.match(damage, [/^pipe: /, /^device: /, /^socket: it cannot be read \(ENXIO/])
  await blobs.write('pipe', [bytes('kept')])
  t.same(texts(await blobs.read('pipe')), ['kept'], 'a write takes its place')
})

test('a large part in shared memory is summed up elsewhere and refused all the same when a byte differs', async (t) => {
  const { folder, damage, open } = await fresh(t)
  const blobs = await open()
  const large = new Uint8Array(new SharedArrayBuffer(5 * 1024 * 1024)).map((_, at) => at % 251)
  const inShared = new Uint8Array(new SharedArrayBuffer(large.byteLength))
  inShared.set(large)
  await blobs.write('rows', [bytes('small'), inShared, large])
  const [small, ...others] = (await blobs.read('rows')) ?? []
  t.same(texts(small && [small]), ['small'])
  t.ok(others.length === 2 && others.every((part) => Buffer.compare(part, large) === 0))
  const [file] = await readdir(folder)
  const path = join(folder, file as string)
  const good = await readFile(path)
  for (const at of [1_000_000, 6_000_000, good.byteLength - 1]) {
    const bad = Buffer.from(good)
    bad[at] = (bad[at] as number) ^ 1
    await writeFile(path, bad)
    t.ok((await blobs.read('rows')) === undefined, `byte ${at} flipped`)
  }
  t.same(damage, Array(3).fill('rows: a checksum does not match'))
})

test('parts of every size come back whole, in shared memory of their own', async (t) => {
  const { damage, open } = await fresh(t)
  const blobs = await open()
  const EDGE = 64 * 1024 // so many bytes of a file are read first
  const filled = (length: number, at: number) => new Uint8Array(length).fill(at + 1)
  const cases = [
    ...[
      [],
      [0],
      [EDGE],
      [EDGE - 1, 2, EDGE + 1, 0, 7],
      [3 * EDGE, 5],
      Array.from({ length: 100 }, () => 900),
    ],
    Array.from({ length: 2_000 }, () => 20), // its header alone is longer
    ...Array.from({ length: 9 }, (_, at) => [EDGE - 130 + 8 * at, 8]), // a part on either side of the edge
  ]
  for (const [number, lengths] of cases.entries()) {
    const parts = lengths.map(filled)
    await blobs.write('one', parts)
    const read = await blobs.read('one')
    t.ok(
      read?.length === parts.length &&
        parts.every((part, at) => Buffer.compare(part, read[at] as Buffer) === 0),
      `case ${number}`,
    )
    const own = read?.every(({ buffer, byteLength }) => {
      return buffer instanceof SharedArrayBuffer && buffer.byteLength === byteLength
    })
    t.ok(own, 'a typed array can be made over each')
  }
  t.same(damage, [])
})

test('what a write that a crash cut off has left goes at the next start, and not when somebody looks in', async (t) => {
  const { folder, open } = await fresh(t)
  const blobs = await open()
  await blobs.write('doc', [bytes('old')])
  const unfinished = join(folder, 'doc.blob.4711.1.tmp')
  await writeFile(unfinished, 'half of a slice')
  await open()
  t.equal((await readdir(folder)).length, 2, 'another process may be writing it')
  const next = await openBlobFiles({ folder, sweep: true, onDamage: () => {} })
  t.same(await readdir(folder), ['doc.blob'])
  t.same(texts(await next.read('doc')), ['old'])
})

test('a write that fails leaves no litter', async (t) => {
  const { folder, open } = await fresh(t)
  const blobs = await open()
  await blobs.write('doc', [bytes('old')])
  await t.rejects(blobs.write('doc', [bytes('new'), null as unknown as Uint8Array]))
  t.equal((await readdir(folder)).length, 1)
})
