/**
 * What a buyer asks of a running agent from the command line: its feed, as a table for people or JSON lines for machines, or as a
 * copy that is kept current; signals in plain words; and the activation of one.
 */
import { randomUUID } from 'node:crypto'
import { howMany } from '../adcp/answer.js'
import { isRecord } from '../adcp/json.js'
import { forTerminal } from '../adcp/redaction.js'
import type { FeedMirrorOptions } from '../mirror/mirror.js'
import type { FeedReading } from '../mirror/reading.js'
import { createWalk, MAX_RESTARTS, pageAt } from '../mirror/walk.js'
import { type Address, addressOf, callTask, type Target } from './address.js'
import { CommandFailure, createProgress, renderTable, tableWidth } from './terminal.js'

/** What agents send is read without trusting its shape: `--url` may name anybody's. */
type Item = Readonly<Record<string, unknown>>

const itemsIn = (value: unknown): Item[] => (Array.isArray(value) ? value.filter(isRecord) : [])
/** A text or a number; empty for anything else. */
const textOf = (value: unknown) =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : ''

type FeedPage = {
  signals: Item[]
  version: string
  total: number | undefined
  /** The first page of a walk, or of one that had to start again. */
  first: boolean
  incomplete: Item[]
  warnings: Item[]
}

type Filters = Record<string, unknown> | undefined

/**
 * The pages of one walk over a running feed, which starts again when the feed moves. Throws `CommandFailure` when the feed cannot be
 * reached, refuses, keeps moving, or is none.
 */
async function* walkFeed(server: Address, filters: Filters): AsyncGenerator<FeedPage> {
  for (let restarts = 0; restarts <= MAX_RESTARTS; restarts += 1) {
    const pages = createWalk()
    let cursor: string | undefined
    for (;;) {
      const request = { discovery_mode: 'wholesale', ...pageAt(cursor), ...(filters && { filters }) }
      const answer = await callTask(server, 'get_signals', request)
      const step = pages.take(answer)
      if (step.kind === 'moved') break
      if (step.kind === 'unsound')
        throw new CommandFailure(`${server.base} gives no whole feed: ${step.message}`)
      const { signals, total, next } = step
      yield {
        ...{ signals: itemsIn(signals), version: pages.versions().version ?? '', total },
        ...{ first: cursor === undefined },
        ...{ incomplete: itemsIn(answer.incomplete), warnings: itemsIn(answer.errors) },
      }
      if (next === undefined) return
      cursor = next
    }
  }
  throw new CommandFailure('the feed changed during every walk; try again when its upstreams are quieter')
}

/** Answers go to `out`, and what is said beside them to `err`. */
type Output = { json: boolean; out: NodeJS.WriteStream; err: NodeJS.WriteStream }

type FeedOptions = Target &
  Output & {
    filters: Filters
    /** Rows the table shows; JSON lines are never cut. */
    limit: number
    now: () => number
  }

const FEED_HEADER = ['signal', 'provider', 'type', 'live', 'lowest price', 'upstreams', 'handle']

function price(options: unknown): string {
  if (!Array.isArray(options)) return '-'
  const read = itemsIn(options).map(({ model, cpm, currency }) => [model, cpm, currency].map(textOf))
  const cpms = read.filter(([model]) => model === 'cpm').sort(([, a], [, b]) => Number(a) - Number(b))
  const [cheapest] = cpms
  if (cheapest) return `${cheapest[1]} ${cheapest[2]} cpm`
  return read.map(([model]) => model).join(', ')
}

/** One signal in the order of the header. */
function feedCells(row: Item): string[] {
  const deployments = itemsIn(row.deployments)
  const live = deployments.filter(({ is_live }) => is_live).length
  const own = isRecord(row.ext) && isRecord(row.ext.tributary) ? row.ext.tributary : {}
  const upstreams = itemsIn(own.offers).map(({ upstream }) => textOf(upstream))
  return [
    textOf(row.name),
    textOf(row.data_provider),
    textOf(row.signal_type),
    `${live} of ${deployments.length}`,
    price(row.pricing_options),
    [...new Set(upstreams)].join(', '),
    textOf(row.signal_agent_segment_id),
  ]
}

/** Warnings of an answer, for people; they stand beside its rows, which machines may read. */
function tellWarnings(warnings: readonly Item[], err: NodeJS.WritableStream): void {
  for (const warning of forTerminal(warnings)) {
    const words = ['code', 'field', 'message', 'suggestion'].map((name) => textOf(warning[name]))
    err.write(`tributary: warning: ${words.filter((word) => word !== '').join(': ')}\n`)
  }
}

/** What an answer lacks: for people below its rows, and beside rows that machines read. */
function tellGaps(incomplete: readonly Item[], { json, out, err }: Output): void {
  const [to, begin] = json ? [err, 'tributary: '] : [out, '']
  for (const { scope, description } of forTerminal(incomplete)) {
    to.write(`${begin}incomplete (${textOf(scope)}): ${textOf(description)}\n`)
  }
}

/** Prints the feed. Throws what the walk throws. */
export async function printFeed(command: FeedOptions): Promise<void> {
  const { filters, limit, json, out, err, now } = command
  const server = await addressOf(command, 'buyer')
  const progress = createProgress(err, now)
  let rows: Item[] = []
  let seen = 0
  let last: FeedPage | undefined
  try {
    for await (const page of walkFeed(server, filters)) {
      if (page.first) {
        if (json && seen > 0)
          throw new CommandFailure(
            'the feed moved during the walk, so the lines above are stale; run it again',
          )
        rows = []
        seen = 0
      }
      seen += page.signals.length
      if (json) for (const row of page.signals) out.write(`${JSON.stringify(row)}\n`)
      else rows.push(...page.signals.slice(0, Math.max(0, limit - rows.length)))
      progress.show(`${seen} of ${page.total ?? '?'} signals`)
      last = page
    }
  } finally {
    progress.done()
  }
  tellWarnings(last?.warnings ?? [], err)
  if (!json && last) {
    out.write(`${renderTable(FEED_HEADER, rows.map(feedCells), tableWidth(out))}\n\n`)
    const cut = rows.length < seen ? `, the first ${rows.length} shown (--limit)` : ''
    out.write(`${howMany(seen, 'signal')}${cut}, version ${forTerminal(last.version)}\n`)
  }
  tellGaps(last?.incomplete ?? [], command)
}

type AskCommand = Target & Output & { words: string; limit: number }

/** `tributary ask WORDS`: what fits them best, by this agent's own search and those of its upstreams. */
export async function ask(command: AskCommand): Promise<void> {
  const { words, limit, json, out, err } = command
  const input = { signal_spec: words, pagination: { max_results: limit } }
  const answer = await callTask(await addressOf(command, 'buyer'), 'get_signals', input)
  const rows = itemsIn(answer.signals)
  tellWarnings(itemsIn(answer.errors), err)
  if (json) for (const row of rows) out.write(`${JSON.stringify(row)}\n`)
  else
    out.write(
      `${renderTable(FEED_HEADER, rows.map(feedCells), tableWidth(out))}\n\n${forTerminal(textOf(answer.message))}\n`,
    )
  tellGaps(itemsIn(answer.incomplete), command)
}

type ActivateCommand = Target &
  Output & {
    handle: string
    destination: { type: string }
    option: string | undefined
    account: string | undefined
    key: string | undefined
    deactivate: boolean
  }

/** What was asked is done, or goes on without being asked for again. */
const DONE_OR_BEGUN = ['completed', 'submitted', 'working', 'input-required', 'auth-required']

/**
 * `tributary activate HANDLE`. Prints what the agent answers; a repetition with the same `--key` activates nothing twice. The key is
 * told before the agent is asked, because it is needed most where no answer comes.
 */
export async function activate(command: ActivateCommand): Promise<void> {
  const { handle, destination, option, account, key = randomUUID(), deactivate, json, out, err } = command
  const server = await addressOf(command, 'buyer')
  err.write(`key ${key}\n`)
  const input = {
    signal_agent_segment_id: handle,
    destinations: [destination],
    idempotency_key: key,
    ...(option !== undefined && { pricing_option_id: option }),
    ...(account !== undefined && { account: { account_id: account } }),
    ...(deactivate && { action: 'deactivate' }),
  }
  const answer = await callTask(server, 'activate_signal', input, DONE_OR_BEGUN)
  const [status, message, task] = [answer.status, answer.message, answer.task_id].map(textOf).map(forTerminal)
  const text = `${status}: ${message}${task && `\ntask ${task}`}`
  out.write(`${json ? JSON.stringify(answer) : text}\n`)
}

type MirrorCommand = Pick<
  FeedMirrorOptions,
  'url' | 'token' | 'filters' | 'account' | 'out' | 'format' | 'everyMs' | 'listen' | 'egress'
> & {
  /** Reads the feed once and ends. */
  once: boolean
  out: string
  stdout: NodeJS.WriteStream
  stderr: NodeJS.WriteStream
}

function lineOf(reading: Exclude<FeedReading, { kind: 'failed' }>): string {
  const { rows, version, incomplete } = reading.state
  const gaps = incomplete.length > 0 ? `, ${howMany(incomplete.length, 'part')} missing or old` : ''
  return `${reading.kind}: ${howMany(rows, 'signal')}, version ${version ?? 'unknown'}${gaps}`
}

/**
 * `tributary mirror`: keeps a copy of a feed current, in a folder or a database, until it is told to end. Throws `CommandFailure`
 * when the copy cannot be opened, and with `once` when it could not be made current.
 */
export async function mirrorFeed({ once, stdout, stderr, ...options }: MirrorCommand): Promise<void> {
  const { openFeedMirror } = await import('../mirror/mirror.js') // no other command needs its client and its databases
  const failure = (message: string) => new CommandFailure(forTerminal(message)) // it may repeat what the agent said
  const fail = ({ message }: Error) => Promise.reject(failure(message))
  const print = (to: NodeJS.WritableStream, line: string) => to.write(`${forTerminal(line)}\n`)
  const onReading = (reading: FeedReading) => {
    if (reading.kind !== 'failed') print(stdout, lineOf(reading))
    else print(stderr, `tributary: ${options.url}: ${reading.reason}: ${reading.message}`)
  }
  const onProblem = (problem: string) => print(stderr, `tributary: ${problem}`)
  const mirror = await openFeedMirror({ ...options, onReading, onProblem }).catch(fail)
  const end = () => void mirror.close().catch(() => {}) // told below, where it is closed again
  process.once('SIGINT', end).once('SIGTERM', end)
  try {
    if (!once) return await mirror.follow()
    const reading = await mirror.read().catch(fail)
    if (reading.kind === 'failed') throw failure(`${options.url}: ${reading.message}`)
    onReading(reading)
  } finally {
    await mirror.close()
  }
}
