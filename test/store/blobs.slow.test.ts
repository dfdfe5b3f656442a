import { test } from 'tap'
import { NO_POSTGRES, onEveryStorage, shared } from './support/storages.js'

const bytes = (text: string) => new TextEncoder().encode(text)
const texts = (parts: Uint8Array[] | undefined) => parts?.map((part) => Buffer.from(part).toString())
const slice = 'slice/https://a.example/mcp'

onEveryStorage('a blob comes back part by part, in another process too', async (t, storage) => {
  await (await storage.open()).blobs.write(slice, [bytes('one'), bytes(''), bytes('three')])
  const { blobs } = await storage.open({ whileInUse: true })
  const parts = await blobs.read(slice)
  t.same(texts(parts), ['one', '', 'three'])
  t.ok(
    parts?.every((part) => part.buffer instanceof SharedArrayBuffer),
    'a worker reads the parts without a copy',
  )
  const begun = (await blobs.begin(slice)) ?? []
  t.same(await Promise.all(begun.map(({ isWhole }) => isWhole)), [true, true, true])
  t.same(texts(begun.map((part) => part.bytes)), ['one', '', 'three'])
  t.same(texts(await blobs.read('slice/https://b.example/mcp')), undefined)
})

onEveryStorage('a blob is replaced whole, and its old parts are gone', async (t, storage) => {
  const { blobs } = await storage.open()
  await blobs.write(slice, [bytes('one'), bytes('two')])
  await blobs.write(slice, [bytes('three')])
  t.same(texts(await blobs.read(slice)), ['three'])
})

onEveryStorage('a part of many megabytes comes back byte for byte', async (t, storage) => {
  const { blobs } = await storage.open()
  const large = new Uint8Array(new SharedArrayBuffer(9 * 1024 * 1024 + 1))
  for (let at = 0; at < large.byteLength; at += 1) large[at] = (at * 31) >> 8
  await blobs.write('large', [bytes('small'), large.subarray(1), bytes('last')])
  const [first, second, third] = (await blobs.read('large')) ?? []
  t.same(texts([first, third].flatMap((part) => part ?? [])), ['small', 'last'])
  t.equal(Buffer.compare(second ?? bytes(''), large.subarray(1)), 0)
})

onEveryStorage('names are listed by prefix, in order, until they are removed', async (t, storage) => {
  const { blobs } = await storage.open()
  for (const name of ['slice/b', 'provider/a', 'slice/a', 'roster']) await blobs.write(name, [bytes(name)])
  t.same(await blobs.list('slice/'), ['slice/a', 'slice/b'])
  t.same(await blobs.list(''), ['provider/a', 'roster', 'slice/a', 'slice/b'])
  await blobs.remove('slice/a')
  await blobs.remove('slice/never-was')
  t.same(await blobs.list('slice/'), ['slice/b'])
  t.equal(await blobs.read('slice/a'), undefined)
})

onEveryStorage('a write that fails leaves the old blob', async (t, storage) => {
  const { blobs } = await storage.open()
  await blobs.write('doc', [bytes('old')])
  await t.rejects(blobs.write('doc', [bytes('new'), null as unknown as Uint8Array]))
  t.same(texts(await blobs.read('doc')), ['old'])
})

onEveryStorage('who reads while another writes sees the old blob or the new one', async (t, storage) => {
  const { blobs } = await storage.open()
  const version = (mark: string) => [bytes(mark.repeat(200_000)), bytes(mark)]
  await blobs.write('doc', version('0'))
  const reads: Promise<Uint8Array[] | undefined>[] = []
  for (let round = 1; round < 10; round += 1) {
    const written = blobs.write('doc', version(String(round)))
    reads.push(blobs.read('doc'), blobs.read('doc'))
    await written
  }
  for (const parts of await Promise.all(reads)) {
    const [body, mark] = texts(parts) ?? []
    t.equal(body, mark?.repeat(200_000), `all parts of version ${mark}`)
  }
})

const MIB = 1024 * 1024

/** A part of so many pieces, each of another content. */
function many(pieces: number): Uint8Array {
  const part = new Uint8Array(new SharedArrayBuffer(pieces * MIB))
  for (let at = 0; at < pieces; at += 1) part.fill(at + 1, at * MIB, (at + 1) * MIB)
  return part
}

test('bytes that are there already are neither written nor read again', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const [one, other] = [await storage.open(), await storage.open()]
  const count = async () => (await one.db.selectFrom('pieces').select('name').execute()).length
  const before = many(5)
  await one.blobs.write('generation/1', [before, bytes('head')])
  t.equal(await count(), 6)
  const changed = new Uint8Array(new SharedArrayBuffer(before.byteLength))
  changed.set(before)
  changed[3 * MIB] = 99
  await one.blobs.write('generation/2', [changed, bytes('head'), before])
  t.equal(await count(), 7, 'one piece is new')

  const first = await other.blobs.read('generation/1')
  const second = await other.blobs.read('generation/2')
  t.equal(second?.[2]?.buffer, first?.[0]?.buffer, 'equal parts are one memory')
  t.equal(Buffer.compare(second?.[0] ?? bytes(''), changed), 0)
  t.equal((await one.blobs.read('generation/2'))?.[0]?.buffer, changed.buffer, 'also of who wrote it')
})

test('a piece that is not what its name says is not believed', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const [one, other] = [await storage.open(), await storage.open()]
  await one.blobs.write('slice/a', [many(2)])
  await one.db
    .updateTable('pieces')
    .set({ bytes: Buffer.alloc(MIB) })
    .execute()
  t.equal(await other.blobs.read('slice/a'), undefined)
  t.match(storage.problems, ['blob slice/a is ignored: a piece is missing or damaged'])
})

test('bytes of no blob go, and those of a blob that is being written stay', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const { blobs, replicas, db } = await storage.open()
  const names = async () => (await db.selectFrom('pieces').select('name').execute()).length
  await blobs.write('a', [many(3)])
  await blobs.write('b', [many(1)])
  await blobs.remove('a')
  await replicas?.sweep()
  t.equal(await names(), 3, 'who writes may be about to use them')
  await db.updateTable('pieces').set({ used_at: 0 }).execute()
  await blobs.write('c', [many(2)])
  await replicas?.sweep()
  t.equal(await names(), 2)
  t.same(
    [await blobs.read('b'), await blobs.read('c')].map((parts) => parts?.[0]?.byteLength),
    [MIB, 2 * MIB],
  )
})

test('what an earlier release wrote is read, and gives way to what is written now', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const { blobs, db } = await storage.open()
  const [name, one, two] = ['cursor-secret', Buffer.from('one'), Buffer.from('two')]
  await db.insertInto('blobs').values({ name, parts: '[6,0]' }).execute()
  await db
    .insertInto('blob_chunks')
    .values([
      { name, part: 0, chunk: 0, bytes: one },
      { name, part: 0, chunk: 1, bytes: two },
    ])
    .execute()
  t.same(texts(await blobs.read(name)), ['onetwo', ''])
  await blobs.add(name, [bytes('another')])
  t.same(texts(await blobs.read(name)), ['onetwo', ''], 'it is there')
  t.same(await blobs.list('cursor'), [name])
  await blobs.write(name, [bytes('newer')])
  t.same(texts(await blobs.read(name)), ['newer'])
  t.same(await db.selectFrom('blobs').selectAll().execute(), [])
})

onEveryStorage('a name of any length keeps its blob, beside others that begin alike', async (t, storage) => {
  const { blobs } = await storage.open()
  const names = [200, 236, 237, 238, 250, 251, 300, 2_000].map((length) => `slice/${'x'.repeat(length)}`)
  const domain = `provider/${'long.'.repeat(49)}example`
  for (const name of [...names, domain]) await blobs.write(name, [bytes(name)])
  for (const name of [...names, domain]) t.same(texts(await blobs.read(name)), [name])
  t.same(await blobs.list('slice/'), [...names].sort())
  await blobs.remove(names[7] as string)
  t.equal(await blobs.read(names[7] as string), undefined)
  t.same(await blobs.list('provider/'), [domain])
  t.same(texts(await (await storage.open({ whileInUse: true })).blobs.read(names[6] as string)), [names[6]])
})
