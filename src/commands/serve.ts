/**
 * `tributary serve`: runs the federation until it is told to stop, says at the start what each upstream gave, and writes the log: one
 * JSON line an event, without secrets.
 */
import { readFile } from 'node:fs/promises'
import { type DestinationStream, type Logger, pino, stdSerializers } from 'pino'
import { howMany } from '../adcp/answer.js'
import { redactedValue } from '../adcp/redaction.js'
import { type Federation, startFederation } from '../composition/federation.js'
import { createReload, followFile } from '../composition/running-config.js'
import { loadConfig } from '../config/load.js'
import type { Config } from '../config/values.js'
import { whyNotMore } from '../explain/remedies.js'
import type { Contribution } from '../explain/upstream.js'
import { systemClock } from '../net/clock.js'
import { releaseSignals, STOPS } from '../process/early-signals.js'
import { WrongSynonyms } from '../search/synonyms.js'
import { loadRareCode } from '../server/app.js'
import { StorageUnavailable, StorageUnusable } from '../store/database/storage-work.js'
import { notesOf, rowsRead, type UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import { CommandFailure, createProgress, EXIT, renderTable, tableWidth } from './terminal.js'

const UPSTREAM_HEADER = ['upstream', 'state', 'read', 'published', 'why not more'] as const
const RARE_CODE_AFTER_MS = 2_000 // not while the first requests are answered
const FAULT_MS = 60_000 // how long what is in flight may take after a fault; what is left of the process may hang
const YET_TO_COME = 'read after the feed was put together: its signals follow'
const DEMO_KEY = 'demo-buyer-key' // config/sandbox.yaml

/** Members that a log line must never hold, up to two levels deep. */
const SECRETS = ['authorization', 'token', 'cookie', 'headers', 'credentials', 'password']
const PATHS = SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`])

type ServeOptions = {
  config: string
  sandboxSignals: number | undefined
  /** Instead of `listen.port`. */
  port: number | undefined
}

/** An exception as the log shows it: redacted, because it may repeat an upstream's text, and that a credential. */
function fault(error: unknown): unknown {
  return redactedValue(error instanceof Error ? stdSerializers.err(error) : error)
}

type LogStream = DestinationStream & { isTTY?: boolean }

/** The level of the log: as wanted, otherwise `info`, and `warn` on a terminal, where people read the start table. */
function levelOn({ isTTY }: LogStream, wanted: string | undefined): string {
  return wanted ?? (isTTY ? 'warn' : 'info')
}

/** A log that writes to `destination`. `level`: as configured. */
export function createLog(destination: LogStream, level?: string): Logger {
  const redact = { paths: PATHS, censor: '[secret]' }
  const words = (said: unknown) => redactedValue(said)
  const serializers = { err: fault, error: fault, message: words, problem: words }
  return pino({ level: levelOn(destination, level), redact, serializers }, destination)
}

/** What each upstream gives to the feed and why not more, in the order of the header. */
export function upstreamTable(
  statuses: readonly UpstreamStatus[],
  contributions: readonly Contribution[],
): string[][] {
  const given = new Map(contributions.map((each) => [each.upstream, each]))
  return statuses.map((status) => {
    const { id, state, problem, dropped } = status
    const { published = 0, reasons = [], hint } = given.get(id) ?? {}
    const isYetToCome = status.listings > 0 && !given.has(id)
    const notes = [...(isYetToCome ? [YET_TO_COME] : []), ...notesOf(status)]
    const why = whyNotMore({ problem, withheld: reasons, hint, notes, dropped })
    return [id, state, rowsRead(status), String(published), why]
  })
}

async function productVersion(): Promise<string> {
  const file = new URL('../../../package.json', import.meta.url)
  return (JSON.parse(await readFile(file, 'utf8')) as { version: string }).version
}

function curl(url: string, sandbox: boolean): string {
  const body = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: {
      name: 'get_signals',
      arguments: { discovery_mode: 'wholesale', pagination: { max_results: 2 } },
    },
  }
  const key = sandbox ? DEMO_KEY : '$TRIBUTARY_TOKEN'
  return [
    `curl -s ${url}/mcp`,
    `-H "authorization: Bearer ${key}"`,
    `-H 'content-type: application/json' -H 'accept: application/json, text/event-stream'`,
    `-H 'mcp-protocol-version: 2025-06-18'`,
    `-d '${JSON.stringify(body)}'`,
  ].join(' \\\n  ')
}

/** Codes of an address that this machine does not have, may not take, or that no name leads to. */
const NO_ADDRESS: ReadonlySet<string> = new Set([
  ...['EACCES', 'EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EINVAL', 'ENOTFOUND', 'EAI_AGAIN', 'ENODATA'],
])

/** What went wrong at the start, in words that say what to do next. */
function startFailure(error: unknown, host: string, port: number): unknown {
  if (error instanceof StorageUnavailable) {
    return new CommandFailure(`storage.url: ${error.message}; Tributary needs a storage that it can write`)
  }
  if (error instanceof StorageUnusable) return new CommandFailure(`storage.url: ${error.message}`)
  if (error instanceof WrongSynonyms) return new CommandFailure(error.message, EXIT.config)
  const code = (error as NodeJS.ErrnoException).code
  if (code === 'EADDRINUSE') {
    return new CommandFailure(
      `${host}:${port} is in use; stop what listens there or set listen.port to another port (0 picks one)`,
    )
  }
  if (code && NO_ADDRESS.has(code)) {
    return new CommandFailure(`cannot listen on ${host}:${port} (${code}); check listen.host and listen.port`)
  }
  return error
}

/** What people read once the feed is there: where its signals come from, and how to ask for a page of it. */
async function greeting({ feed, url, statuses, contributions }: Federation, sandbox: boolean, width: number) {
  const rows = upstreamTable(statuses(), await contributions())
  return [
    `${renderTable(UPSTREAM_HEADER, rows, width)}\n`,
    `${howMany(feed.current()?.shown.length ?? 0, 'signal')} in one feed at ${url}/mcp. A page of it:\n`,
    `${curl(url, sandbox)}\n`,
  ].join('\n')
}

/**
 * Resolves when the process has to end: at the first SIGINT or SIGTERM, or after a fault that nothing caught. The log and the exit
 * code name the fault, and the process ends within `FAULT_MS` of it. A second signal ends the process at once.
 */
function endAsked(log: Logger): Promise<'signal' | 'fault'> {
  return new Promise((resolve) => {
    const onSignal = (signal: NodeJS.Signals) => {
      for (const each of STOPS) process.off(each, onSignal) // then a second one of either kind ends the process
      log.info({ signal }, 'stopping: what is in flight is finished first')
      resolve('signal')
    }
    for (const each of STOPS) process.on(each, onSignal)
    releaseSignals()
    // Rejections that nobody handles come here, too. What follows from the first says nothing more.
    process.on('uncaughtException', (err) => {
      if (process.exitCode === EXIT.failed) return
      process.exitCode = EXIT.failed
      log.fatal({ err }, 'stopping: a fault that nothing caught; what is in flight is finished first')
      setTimeout(() => process.exit(), FAULT_MS).unref()
      resolve('fault')
    })
  })
}

/** Runs until a signal or a fault ends it. Throws `ConfigError` and `CommandFailure`. */
export async function serve(options: ServeOptions): Promise<void> {
  const { stdout, stderr } = process
  const { port } = options
  const there = (config: Config): Config =>
    port === undefined ? config : { ...config, listen: { ...config.listen, port } }
  const followed = followFile(options.config)
  process.on('SIGHUP', followed.look) // without a listener the signal would end the process
  const config = there(await loadConfig(options.config, process.env))
  const log = createLog(stderr, config.logLevel)
  const ended = endAsked(log) // also while the start is under way: what was served before may be served already
  let hasStarted = () => {}
  const started = new Promise<void>((resolve) => {
    hasStarted = resolve
  })
  const reload = createReload({
    ...{ config, followed },
    environment: process.env,
    apply(next) {
      const restart = federation.apply(there(next))
      log.level = levelOn(stderr, next.logLevel)
      return restart
    },
    started,
    clock: systemClock,
    log,
  })
  const federation: Federation = await startFederation({
    config,
    configuration: reload.state,
    version: await productVersion(),
    clock: systemClock,
    random: Math.random,
    log,
    ...(options.sandboxSignals !== undefined && { sandboxSignals: options.sandboxSignals }),
  }).catch((error) => {
    throw startFailure(error, config.listen.host, config.listen.port)
  })
  hasStarted()
  systemClock.after(RARE_CODE_AFTER_MS, async () => {
    const jwt = config.callers.jwt !== undefined
    await loadRareCode({ jwt }).then(
      () => log.debug('the code of rare questions is loaded'),
      (err) => log.error({ err }, 'the code of rare questions cannot be loaded: they fail until a restart'),
    )
  })
  const progress = createProgress(stderr, Date.now)
  const drawing = setInterval(() => {
    const statuses = federation.statuses()
    const read = statuses.filter(({ state }) => state !== 'starting')
    progress.show(`reading ${howMany(statuses.length, 'upstream')}: ${read.length} answered`)
  }, 100)
  const isReady = await Promise.race([federation.ready.then(() => true), ended.then(() => false)])
  clearInterval(drawing)
  progress.done()
  if (isReady) stdout.write(await greeting(federation, config.sandbox, tableWidth(stdout)))
  if ((await ended) === 'signal') await federation.drain()
  reload.close()
  await federation.close()
}
