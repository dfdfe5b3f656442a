/**
 * What an operator does from the command line: asks a running server and has it do something, and makes the keys that callers
 * ask with (docs/operations.md).
 */
import { hash, randomBytes } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { forTerminal } from '../adcp/redaction.js'
import { Type } from '../adcp/schema.js'
import { askServer, type Target } from './address.js'
import { CommandFailure, EXIT, renderTable, tableWidth } from './terminal.js'

const KEY_BYTES = 32

const Word = Type.String()
const Refreshing = Type.Object({ upstream: Word })
const Acted = Type.Object({ action: Word, subject: Word, until: Type.Optional(Word) })
const Entry = Type.Object({ at: Word, who: Word, action: Word, subject: Word, outcome: Word })
const Audit = Type.Object({ entries: Type.Array(Entry) })
const Job = Type.Object({
  ...{ id: Word, kind: Word, lane: Word, caller: Word },
  ...{ attempts: Type.Integer(), is_held: Type.Boolean() },
})
const OpenJobs = Type.Object({ jobs: Type.Array(Job) })

/** `tributary refresh UPSTREAM`: has a running server read an upstream in full now. */
export async function refreshUpstream(
  command: Target & { upstream: string; out: NodeJS.WriteStream },
): Promise<void> {
  const { upstream, out } = command
  const path = `/refresh?${new URLSearchParams({ upstream })}`
  await askServer(command, path, { method: 'POST', answer: Refreshing })
  out.write(`${upstream} is being read in full; tributary explain ${upstream} shows how it went\n`)
}

/** `tributary exclude UPSTREAM` and its like: has a running server do something, and says until when it holds. */
export async function actOnServer(
  command: Target & { action: string; subject: string; done: string; out: NodeJS.WriteStream },
): Promise<void> {
  const { action, subject, done, out } = command
  const act = { method: 'POST', body: { action, subject }, answer: Acted } as const
  const { until } = await askServer(command, '/console/api/actions', act)
  out.write(`${subject}: ${done}${until ? ', until the configuration is read again' : ''}\n`)
}

type ListCommand = Target & { json: boolean; out: NodeJS.WriteStream }

/** `tributary audit`: what operators did, newest first. */
export async function printAudit(command: ListCommand): Promise<void> {
  const { json, out } = command
  const { entries } = await askServer(command, '/console/api/audit', { method: 'GET', answer: Audit })
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
  const { jobs } = await askServer(command, '/console/api/jobs', { method: 'GET', answer: OpenJobs })
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
