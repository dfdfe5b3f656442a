/**
 * What an operator does from the command line: asks a running server and has it do something, makes the keys that callers ask
 * with, and reads or moves the storage itself, whether or not a server runs (docs/operations.md, docs/storage.md).
 */
import { hash, randomBytes } from 'node:crypto'
import { access } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { howMany } from '../adcp/answer.js'
import { forTerminal } from '../adcp/redaction.js'
import type { Config } from '../config/values.js'
import { StorageUnavailable, StorageUnusable } from '../store/database/storage-work.js'
import type { Entry, LedgerFilter } from '../store/records/ledger.js'
import type { Store } from '../store/store.js'
import { addressOf, request, type Target } from './address.js'
import { CommandFailure, EXIT, renderTable, tableWidth } from './terminal.js'

const KEY_BYTES = 32
const TIMEOUT_MS = 30_000
const TABLE_ENTRIES = 50
const LEDGER_HEADER = ['when', 'caller', 'action', 'outcome', 'upstream', 'destinations', 'handle']

/** The JSON that the server answers. Throws `CommandFailure` when it cannot be asked or refuses. */
export async function askServer(
  target: Target,
  path: string,
  method: 'GET' | 'POST',
  body?: object,
): Promise<unknown> {
  const server = await addressOf(target, 'operator')
  const response = await request(server, path, { method, timeoutMs: TIMEOUT_MS, body })
  if (response.status === 401 || response.status === 403) {
    throw new CommandFailure('this needs a key with role: operator; give it as --token or TRIBUTARY_TOKEN')
  }
  const answer = (await response.json().catch(() => ({}))) as { error?: string }
  if (!response.ok) throw new CommandFailure(answer.error ?? `the server answered HTTP ${response.status}`)
  return answer
}

/** `tributary refresh UPSTREAM`: has a running server read an upstream in full now. */
export async function refreshUpstream(
  command: Target & { upstream: string; out: NodeJS.WriteStream },
): Promise<void> {
  const { upstream, out } = command
  await askServer(command, `/refresh?${new URLSearchParams({ upstream })}`, 'POST')
  out.write(`${upstream} is being read in full; tributary explain ${upstream} shows how it went\n`)
}

/** `tributary exclude UPSTREAM` and its like: has a running server do something, and says until when it holds. */
export async function actOnServer(
  command: Target & { action: string; subject: string; done: string; out: NodeJS.WriteStream },
): Promise<void> {
  const { action, subject, done, out } = command
  const asked = await askServer(command, '/console/api/actions', 'POST', { action, subject })
  const { until } = asked as { until?: string }
  out.write(`${subject}: ${done}${until ? ', until the configuration is read again' : ''}\n`)
}

type ListCommand = Target & { json: boolean; out: NodeJS.WriteStream }

/** `tributary audit`: what operators did, newest first. */
export async function printAudit(command: ListCommand): Promise<void> {
  const { json, out } = command
  const { entries } = (await askServer(command, '/console/api/audit', 'GET')) as {
    entries: Record<string, string>[]
  }
  if (json) {
    for (const entry of entries) out.write(`${JSON.stringify(entry)}\n`)
    return
  }
  if (entries.length === 0) out.write('no operator has done anything yet\n')
  for (const { at, who, action, subject, outcome } of forTerminal(entries)) {
    out.write(`${at}  ${who}  ${action}  ${subject}  ${outcome}\n`)
  }
}

/** `tributary jobs`: what is under way and what keeps failing, with the ids that `retry` and `give-up` take. */
export async function printJobs(command: ListCommand): Promise<void> {
  const { json, out } = command
  const { jobs } = (await askServer(command, '/console/api/jobs', 'GET')) as {
    jobs: { id: string; kind: string; lane: string; caller: string; attempts: number; is_held: boolean }[]
  }
  if (json) {
    for (const job of jobs) out.write(`${JSON.stringify(job)}\n`)
    return
  }
  const rows = forTerminal(jobs).map(({ id, kind, lane, caller, attempts, is_held }) => [
    ...[id, kind, lane, caller, String(attempts), is_held ? 'being worked on' : 'waits'],
  ])
  const header = ['job', 'kind', 'where', 'caller', 'attempts', 'state']
  out.write(rows.length > 0 ? `${renderTable(header, rows, tableWidth(out))}\n` : 'no job is open\n')
}

type KeyCommand = { given: boolean; json: boolean; input: NodeJS.ReadStream; out: NodeJS.WriteStream }

/** A key is one word: it stands in a header. */
async function keyFrom(input: NodeJS.ReadStream): Promise<string> {
  const key = (await text(input)).trim()
  if (key !== '' && !/\s/.test(key)) return key
  const example = 'printf %s "$KEY" | tributary key --stdin'
  throw new CommandFailure(`--stdin: expected a key, one word; for instance ${example}`, EXIT.usage)
}

/**
 * `tributary key`: makes a caller's key and says its digest. `given`: the key is read from `input`, so that it stands in
 * no history of a shell.
 */
export async function printKey({ given, json, input, out }: KeyCommand): Promise<void> {
  const key = given ? await keyFrom(input) : randomBytes(KEY_BYTES).toString('base64url')
  const digest = hash('sha256', key, 'hex')
  if (json) out.write(`${JSON.stringify({ ...(!given && { key }), token_sha256: digest })}\n`)
  else out.write(`${given ? '' : `key: ${key}\n`}token_sha256: "${digest}"\n`)
}

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
