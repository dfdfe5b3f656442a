/**
 * What a buyer asks of a running agent from the command line: its feed, as a table for people or JSON lines for machines, or as a
 * copy that is kept current; signals in plain words; and the activation of one.
 */
import { randomUUID } from 'node:crypto'
import { howMany } from '../adcp/answer.js'
import { forTerminal } from '../adcp/redaction.js'
import type { FeedReading } from '../mirror/catching-up.js'
import type { FeedMirrorOptions } from '../mirror/mirror.js'
import { type Address, addressOf, callTask, type Target } from './address.js'
import { CommandFailure, createProgress, renderTable, tableWidth } from './terminal.js'

const PAGE = 100
const MAX_RESTARTS = 10

type FeedRow = {
  signal_agent_segment_id: string
  name: string
  signal_type: string
  data_provider?: string
  deployments: { is_live: boolean }[]
  pricing_options?: Record<string, unknown>[]
  ext?: { tributary?: { offers?: { upstream: string }[] } }
  [field: string]: unknown
}

type FeedPage = {
  signals: FeedRow[]
  version: string
  total: number | undefined
  /** The first page of a walk, or of one that had to start again. */
  first: boolean
  incomplete: { scope: string; description: string }[]
}

type Filters = Record<string, unknown> | undefined

type Answer = {
  signals?: FeedRow[]
  wholesale_feed_version?: string
  pagination?: { has_more: boolean; cursor?: string; total_count?: number }
  incomplete?: FeedPage['incomplete']
}

/**
 * The pages of one walk over a running feed. The walk starts again when the version moves (specification, "mid-pagination").
 * Throws `CommandFailure` when the feed cannot be reached, refuses, or keeps moving.
 */
async function* walkFeed(server: Address, filters: Filters): AsyncGenerator<FeedPage> {
  let version: string | undefined
  let cursor: string | undefined
  for (let restarts = 0; restarts <= MAX_RESTARTS; ) {
    const pagination = { max_results: PAGE, ...(cursor && { cursor }) }
    const request = { discovery_mode: 'wholesale', pagination, ...(filters && { filters }) }
    const answer = (await callTask(server, 'get_signals', request)) as Answer
    const current = answer.wholesale_feed_version ?? ''
    if (cursor && current !== version) {
      cursor = undefined
      restarts += 1
      continue
    }
    const first = cursor === undefined
    version = current
    cursor = answer.pagination?.has_more ? answer.pagination.cursor : undefined
    yield {
      signals: answer.signals ?? [],
      version,
      total: answer.pagination?.total_count,
      first,
      incomplete: answer.incomplete ?? [],
    }
    if (!cursor) return
  }
  throw new CommandFailure('the feed changed during every walk; try again when its upstreams are quieter')
}

type FeedOptions = Target & {
  filters: Filters
  /** Rows the table shows; JSON lines are never cut. */
  limit: number
  json: boolean
  out: NodeJS.WriteStream
  err: NodeJS.WriteStream
  now: () => number
}

const FEED_HEADER = ['signal', 'provider', 'type', 'live', 'lowest price', 'upstreams', 'handle']

function price(options: FeedRow['pricing_options']): string {
  if (!options) return '-'
  const cpms = options.filter(({ model }) => model === 'cpm').sort((a, b) => Number(a.cpm) - Number(b.cpm))
  const [cheapest] = cpms
  if (cheapest) return `${cheapest.cpm} ${cheapest.currency} cpm`
  return options.map(({ model }) => String(model)).join(', ')
}

/** One signal in the order of the header. */
function feedCells(row: FeedRow): string[] {
  const live = row.deployments.filter(({ is_live }) => is_live).length
  const upstreams = row.ext?.tributary?.offers?.map(({ upstream }) => upstream) ?? []
  return [
    row.name,
    row.data_provider ?? '',
    row.signal_type,
    `${live} of ${row.deployments.length}`,
    price(row.pricing_options),
    [...new Set(upstreams)].join(', '),
    row.signal_agent_segment_id,
  ]
}

/** Prints the feed. Throws what the walk throws. */
export async function printFeed(command: FeedOptions): Promise<void> {
  const { filters, limit, json, out, err, now } = command
  const server = await addressOf(command, 'buyer')
  const progress = createProgress(err, now)
  let rows: FeedRow[] = []
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
  if (json || !last) return
  out.write(`${renderTable(FEED_HEADER, rows.map(feedCells), tableWidth(out))}\n\n`)
  const cut = rows.length < seen ? `, the first ${rows.length} shown (--limit)` : ''
  out.write(`${howMany(seen, 'signal')}${cut}, version ${last.version}\n`)
  for (const { scope, description } of forTerminal(last.incomplete)) {
    out.write(`incomplete (${scope}): ${description}\n`)
  }
}

type Output = { json: boolean; out: NodeJS.WriteStream }

/** `tributary ask WORDS`: what fits them best, by this agent's own search and those of its upstreams. */
export async function ask(command: Target & Output & { words: string; limit: number }): Promise<void> {
  const { words, limit, json, out } = command
  const input = { signal_spec: words, pagination: { max_results: limit } }
  const answer = await callTask(await addressOf(command, 'buyer'), 'get_signals', input)
  const rows = (answer.signals ?? []) as FeedRow[]
  if (json) for (const row of rows) out.write(`${JSON.stringify(row)}\n`)
  else
    out.write(
      `${renderTable(FEED_HEADER, rows.map(feedCells), tableWidth(out))}\n\n${forTerminal(answer.message ?? '')}\n`,
    )
}

type ActivateCommand = Target &
  Output & {
    handle: string
    destination: { type: string }
    option: string | undefined
    account: string | undefined
    key: string | undefined
    deactivate: boolean
    err: NodeJS.WriteStream
  }

/**
 * `tributary activate HANDLE`. Prints what the agent answers; a repetition with the same `--key` activates nothing twice. The key is
 * told before the agent is asked, because it is needed most where no answer comes.
 */
export async function activate(command: ActivateCommand): Promise<void> {
  const { handle, destination, option, account, key = randomUUID(), deactivate, json, out, err } = command
  const server = await addressOf(command, 'buyer')
  err.write(`key ${key}\n`)
  const answer = await callTask(server, 'activate_signal', {
    signal_agent_segment_id: handle,
    destinations: [destination],
    idempotency_key: key,
    ...(option !== undefined && { pricing_option_id: option }),
    ...(account !== undefined && { account: { account_id: account } }),
    ...(deactivate && { action: 'deactivate' }),
  })
  const task = typeof answer.task_id === 'string' ? `\ntask ${answer.task_id}` : ''
  out.write(
    json ? `${JSON.stringify(answer)}\n` : `${answer.status}: ${forTerminal(answer.message ?? '')}${task}\n`,
  )
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
  const gaps = incomplete.length > 0 ? `, ${incomplete.length} parts missing or old` : ''
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
