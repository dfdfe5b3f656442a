import { open, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { wasClosed } from '../../src/store/database/folder.js'
import { embedded } from './support/storages.js'

test('only what an orderly end did not leave is read through at the next start', async (t) => {
  const storage = await embedded(t)
  await (await storage.open()).close()
  const file = join(storage.url.slice('file:'.length), 'tributary.db')
  t.equal(await wasClosed(file), true)
  t.equal(await wasClosed(file), false, 'a start uses the mark up: after a crash there is none')
  await (await storage.open()).close()
  await utimes(file, 1, 1)
  t.equal(await wasClosed(file), false, 'another file, or a change, is checked')
})

test('a database file that lost what was written last is refused at start instead of served', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  for (let index = 0; index < 600; index += 1) {
    await store.idempotency.bind({
      caller: 'acme',
      key: `key-${index}`,
      task: 't',
      fingerprint: 'f'.repeat(64),
    })
  }
  await store.close()
  const file = await open(join(storage.url.slice('file:'.length), 'tributary.db'), 'r+')
  const { size } = await file.stat()
  const pages = size / 4_096
  // The pages that were written last, none of which a start reads for another reason.
  for (let page = Math.floor(pages * 0.8); page < pages; page += 1) {
    await file.write(Buffer.alloc(64, 0xff), 0, 64, page * 4_096)
  }
  await file.close()
  await t.rejects(storage.open(), /damaged|malformed/)
})
