/**
 * A copy of a wholesale feed that keeps itself current, for whoever wants the rows at hand: files, SQLite or PostgreSQL. The
 * feed may be any agent's of the protocol. This is the published entry point `@tributary-adcp/tributary/mirror`.
 */
import canonicalize from 'canonicalize'
import { backoffMs, jittered } from '../net/backoff.js'
import { type Clock, pause, systemClock } from '../net/clock.js'
import { createFeedAsker } from './asker.js'
import type { Copy } from './copy.js'
import { openJsonLines } from './json-lines.js'
import { type FeedReading, readFeed } from './reading.js'
import { openPostgresCopy, openSqliteCopy } from './table.js'

const EVERY_MS = 60_000
const WHOLE_MS = 24 * 3_600_000 // tokens are the agent's word: once a day the rows themselves are read

export type FeedMirrorOptions = {
  /** Of the agent; `/mcp` is added where it has no path. */
  url: string
  /** A bearer key. Default: the feed as anybody sees it. */
  token?: string | undefined
  /** `filters` of `get_signals`. */
  filters?: Readonly<Record<string, unknown>> | undefined
  /** The account that it is read for, as `account_id`. */
  account?: string | undefined
  /** A folder, or `postgres://...`. One mirror at a time works on it. */
  out: string
  /** What is kept in the folder. Default: `ndjson`. */
  format?: 'ndjson' | 'sqlite' | undefined
  /** Between two readings, ms. Default: a minute. */
  everyMs?: number | undefined
  /** Told of each reading that `follow` makes. */
  onReading?: (reading: FeedReading) => void
  /** Told of lost connections to the database. */
  onProblem?: (problem: string) => void
  /** Default: the system's. */
  clock?: Clock
}

function endpointOf(url: string): string {
  const place = URL.canParse(url) ? new URL(url) : undefined
  if (place?.protocol !== 'http:' && place?.protocol !== 'https:')
    throw new Error(`expected an http or https url, got ${url}`)
  if (place.pathname === '/') place.pathname = '/mcp'
  return place.href
}

function openCopy({ out, format = 'ndjson', onProblem = () => {} }: FeedMirrorOptions): Promise<Copy> {
  if (/^postgres(ql)?:/.test(out)) return openPostgresCopy(out, onProblem)
  return format === 'sqlite' ? openSqliteCopy(out, onProblem) : openJsonLines(out)
}

/**
 * Opens the copy, or makes it; nothing is asked yet. Rejects when it cannot be written, when another process works on it, and
 * when it is a copy of something else: of another agent, with other filters, or for another account.
 */
export async function openFeedMirror(options: FeedMirrorOptions) {
  const { token, filters, account, everyMs = EVERY_MS, onReading = () => {}, clock = systemClock } = options
  const url = endpointOf(options.url)
  const question = { ...(filters && { filters }), ...(account && { account: { account_id: account } }) }
  const source = canonicalize({ url, ...question }) as string
  const copy = await openCopy(options)
  const lifetime = new AbortController()
  const { signal } = lifetime
  const asker = createFeedAsker({ url, token })

  const before = await copy.state().catch(async (error: unknown) => {
    await copy.close()
    throw error
  })
  if (before && before.source !== source) {
    await copy.close()
    throw new Error(`the place holds a copy of something else: ${before.source}`)
  }

  async function readNow(): Promise<FeedReading> {
    const state = await copy.state()
    const held = state && clock.now() - state.walkedAt < WHOLE_MS ? state : undefined
    return await readFeed({ asker, question, copy, held, source, clock, random: Math.random, signal })
  }

  let last: Promise<unknown> = Promise.resolve()

  /**
   * Once, after a reading that is under way: the copy is current when it resolves, or it is what it was. Rejects when it
   * cannot be written.
   */
  function read(): Promise<FeedReading> {
    const reading = last.then(readNow)
    last = reading.catch(() => {}) // told to whoever asked for it
    return reading
  }

  /** Reads again and again until it is closed. After a failure sooner at first, then ever later up to a minute. */
  async function follow(): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      const reading = await read().catch(({ message }: Error): FeedReading => {
        return { kind: 'failed', reason: 'unwritten', message }
      })
      if (signal.aborted) return
      onReading(reading)
      failures = reading.kind === 'failed' ? failures + 1 : 0
      const { random } = Math
      const wait =
        failures > 0 ? backoffMs({ failures, refreshMs: everyMs, random }) : jittered(everyMs, random)
      await pause(clock, wait, signal)
    }
  }

  async function end(): Promise<void> {
    lifetime.abort()
    await asker.close()
    await last
    await copy.close()
  }
  let ending: Promise<void> | undefined

  return {
    read,
    follow,
    /** Ends what is under way; the copy stays as it is. */
    close(): Promise<void> {
      ending ??= end()
      return ending
    },
  }
}
