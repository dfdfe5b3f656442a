/**
 * What an operator does with the storage itself, whether or not a server runs: moves it, and reads the ledger in it
 * (docs/storage.md).
 */
import { access } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { howMany } from '../adcp/answer.js'
import type { Config } from '../config/values.js'
import { StorageUnavailable, StorageUnusable } from '../store/database/storage-work.js'
import type { Entry, LedgerFilter } from '../store/records/ledger.js'
import type { Store } from '../store/store.js'
import { CommandFailure, renderTable, tableWidth } from './terminal.js'

const TABLE_ENTRIES = 50
const LEDGER_HEADER = ['when', 'caller', 'action', 'outcome', 'upstream', 'destinations', 'handle']

/** What opens a storage: the commands that ask a server do not wait for its code. */
const storing = () => import('../store/store.js')

/** Throws `CommandFailure` where no server has run: a command must not leave an empty storage behind. */
async function requireStorage({ storage, file }: Config): Promise<void> {
  const { databaseFile, storageFolder } = await import('../store/database/sqlite.js')
  const folder = storageFolder(storage.url)
  if (!folder) return
  await access(databaseFile(folder)).catch(() => {
    throw new CommandFailure(
      `there is no storage at ${folder}; run this where \`tributary serve --config ${file}\` runs`,
    )
  })
}

type MoveStorageOptions = {
  config: Config
  /** `file:FOLDER` or `postgres://...`; it must hold no state. */
  to: string
  json: boolean
  out: NodeJS.WriteStream
  err: NodeJS.WriteStream
  now: () => number
}

/**
 * `tributary move-storage`: brings the whole state to another storage, for one server that becomes several. Throws
 * `CommandFailure` when a storage cannot be opened or the target is not empty. The source is only read.
 */
export async function moveStorage({ config, to, json, out, err, now }: MoveStorageOptions): Promise<void> {
  await requireStorage(config)
  const { moveStore, openStore } = await storing()
  const opened: Store[] = []
  async function open(url: string): Promise<Store> {
    const store = await openStore({ url, now, onProblem: (problem) => err.write(`${problem}\n`) })
    opened.push(store)
    return store
  }
  try {
    const moved = await moveStore(await open(config.storage.url), await open(to))
    const rows = Object.entries(moved).map(([table, count]) => [table, String(count)])
    out.write(
      json ? `${JSON.stringify(moved)}\n` : `${renderTable(['what', 'moved'], rows, tableWidth(out))}\n`,
    )
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : String(error))
  } finally {
    for (const store of opened) await store.close()
  }
}

type LedgerCommand = {
  config: Config
  filter: LedgerFilter
  /** Entries shown. Default: 50 in a table, all of them as JSON lines. */
  limit: number | undefined
  json: boolean
  out: NodeJS.WriteStream
  err: NodeJS.WriteStream
  now: () => number
}

function destinationText(destination: unknown): string {
  const { platform, agent_url, account } = destination as Record<string, string | undefined>
  return `${platform ?? agent_url ?? '?'}${account ? ` (${account})` : ''}`
}

function ledgerCells(entry: Entry): string[] {
  const { createdAt, caller, action, outcome, upstream, destinations, handle } = entry
  const when = new Date(createdAt).toISOString().slice(0, 19).replace('T', ' ')
  return [when, caller, action, outcome, upstream, destinations.map(destinationText).join(', '), handle]
}

async function* taken(entries: AsyncIterable<Entry>, limit: number): AsyncGenerator<string> {
  let count = 0
  for await (const entry of entries) {
    if (count === limit) return
    count += 1
    yield `${JSON.stringify(entry)}\n`
  }
}

/** As fast as they are read, so that a ledger of any length fits; a reader that has enough (`head`) may leave. */
async function printLines(
  entries: AsyncIterable<Entry>,
  limit: number,
  out: NodeJS.WriteStream,
): Promise<void> {
  try {
    await pipeline(Readable.from(taken(entries, limit)), out, { end: false })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error
  }
}

/**
 * `tributary ledger`: what was activated and deactivated, by whom, where, and what came of it, newest first, also while a
 * server runs on the same storage.
 */
export async function printLedger({
  config,
  filter,
  json,
  limit = json ? Number.POSITIVE_INFINITY : TABLE_ENTRIES,
  out,
  err,
  now,
}: LedgerCommand): Promise<void> {
  await requireStorage(config)
  const { openStore } = await storing()
  const { ledgerEntries } = await import('../store/records/ledger.js')
  const onProblem = (problem: string) => err.write(`tributary: ${problem}\n`)
  const store = await openStore({ ...config.storage, now, whileInUse: true, onProblem }).catch(
    (error: unknown) => {
      const isTold = error instanceof StorageUnavailable || error instanceof StorageUnusable
      throw isTold ? new CommandFailure(`storage.url: ${error.message}`) : error
    },
  )
  try {
    const entries = ledgerEntries(store.ledger, filter)
    if (json) return await printLines(entries, limit, out)
    const shown: Entry[] = []
    let more = false
    for await (const entry of entries) {
      more = shown.length === limit
      if (more) break
      shown.push(entry)
    }
    out.write(`${renderTable(LEDGER_HEADER, shown.map(ledgerCells), tableWidth(out))}\n\n`)
    out.write(`${howMany(shown.length, 'entry')}${more ? ', the newest of more (--limit)' : ''}\n`)
  } finally {
    await store.close()
  }
}
