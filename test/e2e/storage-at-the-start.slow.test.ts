import { execFileSync } from 'node:child_process'
import { cp, mkdir, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import Database from 'libsql'
import { test } from 'tap'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { openStore } from '../../src/store/store.js'
import { NO_SMALL_DISK, smallDisk } from '../store/support/disk.js'
import { embedded } from '../store/support/storages.js'
import { runCommand } from '../support/command.js'
import { temporaryFolder } from '../support/temporary-folder.js'

const DATABASE = 'tributary.db'

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
    /^tributary: storage\.url: the storage cannot serve just now: .*read-?only.*needs a storage that it can write/m,
  )
  t.notMatch(err, / at /, 'no stack')
  t.match(await runCommand(['ledger', '--config', config]), { code: 0, out: /0 entries/ })
})

test('a database that is not there is told as such', async (t) => {
  await t.rejects(open('postgres://tributary@127.0.0.1:2/none'), StorageUnavailable)
})

test('a url that the driver cannot read is told without what it holds', async (t) => {
  for (const place of ['me:se#cret@db/it', 'me:secret@db:99999/it', 'me:secr%e4t@db/it']) {
    const message = /^(?!.*se(#cret|cr)).*cannot be read.*%23/
    await t.rejects(open(`postgres://${place}`), { name: 'StorageUnusable', message }, place)
  }
})

test('a mark without an end is not read: the database counts as not closed', async (t) => {
  const storage = await embedded(t)
  await (await storage.open()).close()
  const mark = join(storage.url.slice('file:'.length), `${DATABASE}.closed`)
  await rm(mark)
  await symlink('/dev/zero', mark)
  const before = process.resourceUsage().maxRSS
  await (await storage.open()).close()
  t.ok(process.resourceUsage().maxRSS - before < 256 * 1_024, 'no memory is filled with it')
  t.match(await readFile(mark, 'utf8'), /^\d+ /, 'it is marked as ever after that')
})

type Found = readonly [what: string, make: (state: string) => Promise<unknown>, said: RegExp]
type Refused = readonly [...Found, name: 'StorageUnavailable' | 'StorageUnusable']

/** What an operator finds in the place of a storage's parts, and what the start says of it. */
const AT_THE_START: readonly Found[] = [
  [
    'a folder in the place of a blob',
    (state) => mkdir(join(state, 'blobs', 'cursor-secret.blob'), { recursive: true }),
    /cannot serve just now: EISDIR.*cursor-secret\.blob/,
  ],
  [
    'a database that is cut off',
    async (state) => {
      await (await open(`file:${state}`)).close()
      await truncate(join(state, DATABASE), 8_192)
    },
    /tributary\.db is damaged \(.*\); restore it from a backup/,
  ],
]

for (const [what, make, said] of AT_THE_START) {
  test(`${what} ends the start with a sentence`, async (t) => {
    const folder = await temporaryFolder(t)
    const state = join(folder, 'state')
    await mkdir(state)
    await make(state)
    const config = join(folder, 'config.json')
    await writeFile(config, JSON.stringify({ listen: { port: 0 }, storage: { url: `file:${state}` } }))
    const { code, err } = await runCommand(['serve', '--config', config])
    t.equal(code, 1)
    t.match(err, new RegExp(`^tributary: storage\\.url: .*${said.source}`, 'm'))
    t.notMatch(err, /^ +at /m, 'no stack')
  })
}

/** What an operator may find besides. The start prints all errors of these two names alike, so only their messages are looked at. */
const WHEN_OPENED: readonly Refused[] = [
  [
    'a file in the place of the folder of blobs',
    (state) => writeFile(join(state, 'blobs'), ''),
    /cannot serve just now: EEXIST.*blobs/,
    'StorageUnavailable',
  ],
  [
    'a folder in the place of the database',
    (state) => mkdir(join(state, DATABASE)),
    /tributary\.db is not a file, .*; move it away/,
    'StorageUnusable',
  ],
  ...['-journal', '-wal', '-shm'].map(
    (end): Refused => [
      `a pipe in the place of the database's ${end}`,
      async (state) => {
        await (await open(`file:${state}`)).close()
        execFileSync('mkfifo', [join(state, `${DATABASE}${end}`)])
      },
      new RegExp(`tributary\\.db${end} is not a file, .*; move it away`),
      'StorageUnusable',
    ],
  ),
  [
    'a folder in the place of the lock',
    (state) => mkdir(join(state, 'lock')),
    /lock is not a file, .*; move it away/,
    'StorageUnusable',
  ],
  [
    'a lock that something else wrote',
    (state) => writeFile(join(state, 'lock'), 'x'.repeat(1_024)),
    /lock is not a lock: .*; remove it/,
    'StorageUnusable',
  ],
  [
    'a database of a newer release',
    async (state) => {
      await (await open(`file:${state}`)).close()
      const db = new Database(join(state, DATABASE))
      db.exec("insert into kysely_migration values ('900_contract_all', '2030-01-01')")
      db.close()
    },
    /changed by a newer release .*; start that release, or restore/,
    'StorageUnusable',
  ],
  [
    "somebody else's database",
    async (state) => {
      const db = new Database(join(state, DATABASE))
      db.exec('create table tasks (id text)')
      db.close()
    },
    /cannot be used as it is: table tasks already exists; restore it from a backup, or name another one/,
    'StorageUnusable',
  ],
]

for (const [what, make, message, name] of WHEN_OPENED) {
  test(`${what} is told of when the storage is opened`, async (t) => {
    const state = await temporaryFolder(t)
    await make(state)
    await t.rejects(open(`file:${state}`), { name, message })
  })
}
