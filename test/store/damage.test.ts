import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { embedded } from './support/storages.js'

test('a damaged database file is refused at start instead of served', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  for (let index = 0; index < 300; index += 1) {
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
  for (let page = 2; page < size / 4096; page += 1) {
    await file.write(Buffer.alloc(64, 0xff), 0, 64, page * 4096)
  }
  await file.close()
  await t.rejects(storage.open(), /damaged|malformed/)
})
