import { onEveryStorage } from './support/storages.js'

const bytes = (text: string) => new TextEncoder().encode(text)
const texts = (parts: Uint8Array[] | undefined) => parts?.map((part) => Buffer.from(part).toString())
const slice = 'slice/https://a.example/mcp'

onEveryStorage('a blob comes back part by part, in another process too', async (t, storage) => {
  await (await storage.open()).blobs.write(slice, [bytes('one'), bytes(''), bytes('three')])
  const { blobs } = await storage.open({ beside: true })
  const parts = await blobs.read(slice)
  t.same(texts(parts), ['one', '', 'three'])
  t.ok(
    parts?.every((part) => part.buffer instanceof SharedArrayBuffer),
    'a worker reads the parts without a copy',
  )
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
