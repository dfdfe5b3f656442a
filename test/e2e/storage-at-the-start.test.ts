import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'tap'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { openStore } from '../../src/store/store.js'
import { NO_SMALL_DISK, smallDisk } from '../store/support/disk.js'
import { embedded } from '../store/support/storages.js'
import { runCommand } from '../support/command.js'

const open = (url: string) => openStore({ url, now: Date.now, onProblem: () => {} })

test('a read-only folder ends the start with a sentence; what it holds can be read', async (t) => {
  const disk = smallDisk(t, 8)
  if (!disk) return t.comment(NO_SMALL_DISK)
  const { folder } = disk
  const elsewhere = await embedded(t)
  await (await elsewhere.open()).close()
  const state = elsewhere.url.slice('file:'.length)
  const config = join(state, 'config.json')
  await writeFile(config, JSON.stringify({ listen: { port: 0 }, storage: { url: `file:${folder}/data` } }))

  disk.readOnly()
  await t.rejects(open(`file:${folder}/data`), { name: 'StorageUnavailable', message: /EROFS: .*data/ })
  await t.rejects(open(`file:${folder}`), { message: /EROFS: .*blobs/ }, 'a folder that is there, but empty')
  disk.writable()

  // As a server that was stopped leaves it: libsql may hold its log a moment longer.
  const filter = (path: string) => !/-(wal|shm)$/.test(path)
  await cp(state, join(folder, 'data'), { recursive: true, filter })
  disk.readOnly()
  const { code, err } = await runCommand(['serve', '--config', config])
  t.equal(code, 1)
  t.match(
    err,
    /^tributary: storage\.url: the storage cannot serve just now: .*read-?only.*needs a storage that it can write/,
  )
  t.notMatch(err, / at /, 'no stack')
  t.match(await runCommand(['ledger', '--config', config]), { code: 0, out: /0 entries/ })
})

test('a database that is not there is told as such', async (t) => {
  await t.rejects(open('postgres://tributary@127.0.0.1:2/none'), StorageUnavailable)
})
