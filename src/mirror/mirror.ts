/**
 * A copy of a wholesale feed that keeps itself current, for whoever wants the rows at hand: files, SQLite or PostgreSQL. The
 * feed may be any agent's of the protocol. This is the published entry point `@tributary-adcp/tributary/mirror`.
 */
import canonicalize from 'canonicalize'
import { shownUrl } from '../adcp/redaction.js'
import { backoffMs, type Clock, jittered, pause, systemClock } from '../net/clock.js'
import { createEgress } from '../net/egress.js'
import { catchUp } from './catching-up.js'
import type { Copy, CopyState } from './copy.js'
import { createFeedAsker } from './feed-asker.js'
import { createInbox } from './inbox.js'
import { openJsonLines } from './json-lines.js'
import { type Listening, type ListenOptions, startListening } from './listening.js'
import { type FeedReading, readFeed } from './reading.js'
import { stepOf } from './steps.js'
import { openPostgresCopy, openSqliteCopy } from './tables.js'

export type { Clock, CopyState, FeedReading, ListenOptions } // named in the published types

const EVERY_MS = 60_000
const ALIVE_MS = 2 ** 30
const WHOLE_MS = 24 * 3_600_000 // a token may be wrong, so once a day the rows themselves are read

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
  /** Has the agent tell what changes, so that the copy follows within a second; it is asked on schedule all the same. */
  listen?: ListenOptions | undefined
  /**
   * As in the configuration: what may be reached besides public https to find the agent's keys, and domains that are
   * elsewhere.
   */
  egress?: { allowNetworks?: readonly string[]; hosts?: Readonly<Record<string, string>> } | undefined
  /** Told of each reading that `follow` makes. */
  onReading?: (reading: FeedReading) => void
  /** Told of lost connections to the database, and of an agent that does not tell what changes. */
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

/** A wait for the next reading, or after a failure, is no reason for the process to end: somebody waits for this. */
async function keptAlive<T>(work: Promise<T>): Promise<T> {
  const alive = setInterval(() => {}, ALIVE_MS)
  return await work.finally(() => clearInterval(alive))
}

/** A mirror that is open; its place is free for another one when `close` has resolved. */
export type FeedMirror = {
  /** Reads once: when it resolves, the copy is current or unchanged, or it says why not. Rejects when it cannot be written. */
  read(): Promise<FeedReading>
  /**
   * Reads again and again until it is closed, and at once when the agent tells that something changed. After a failure sooner at
   * first, then ever later up to a minute.
   */
  follow(): Promise<void>
  /** The port that is listened on. */
  port: number | undefined
  /** Aborts a reading; the copy stays as it is. */
  close(): Promise<void>
}

/**
 * Opens the copy, or makes it; nothing is asked yet. Rejects when it cannot be written, when another process works on it, and
 * when it is a copy of something else: of another agent, with other filters, or for another account.
 */
export async function openFeedMirror(options: FeedMirrorOptions): Promise<FeedMirror> {
  const { token, filters, account, everyMs = EVERY_MS, onReading = () => {}, clock = systemClock } = options
  const url = endpointOf(options.url)
  const question = { ...(filters && { filters }), ...(account && { account: { account_id: account } }) }
  const source = canonicalize({ url, ...question }) as string
  const { allowNetworks = [], hosts = {} } = options.egress ?? {}
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks, hosts } }) // throws before anything is open
  const place = shownUrl(options.out) || '(nothing)'
  const told = (what: string) => (cause: Error) =>
    Promise.reject(new Error(`${place} cannot be ${what}: ${cause.message}`, { cause }))
  const opened = await openCopy(options).catch(told('opened'))
  const copy: Copy = {
    ...opened,
    /** Of tables another mirror may have made its own since they were opened. */
    async state() {
      const state = await opened.state()
      if (!state || state.source === source) return state
      throw new Error(`the place holds a copy of something else: ${state.source}`)
    },
  }
  const lifetime = new AbortController()
  const { signal } = lifetime
  const asker = createFeedAsker({ url, token, hosts })

  await copy.state().catch(async (error: unknown) => {
    await copy.close()
    throw error
  })

  /** A walk that ended later than now was timed by a clock that was set back since: nobody knows how old it is. */
  function isRecent({ walkedAt }: CopyState): boolean {
    const age = clock.now() - walkedAt
    return age >= 0 && age < WHOLE_MS
  }

  async function readNow(): Promise<FeedReading> {
    const state = await copy.state()
    const held = state && isRecent(state) ? state : undefined
    return await readFeed({ asker, question, copy, held, source, clock, random: Math.random, signal })
  }

  const inbox = createInbox()
  // A connection of its own, because a page that is too large breaks the one that reads.
  const telling = createFeedAsker({ url, token, hosts })
  let listening: Listening | undefined

  async function end(): Promise<void> {
    lifetime.abort()
    await Promise.all([asker.close(), telling.close(), listening?.close()])
    await Promise.all([last, following])
    await egress.close()
    await copy.close()
  }
  let ending: Promise<void> | undefined
  let last: Promise<unknown> = Promise.resolve()
  let following: Promise<void> | undefined

  function close(): Promise<void> {
    ending ??= end()
    return ending
  }

  if (options.listen) {
    const started = startListening({
      ...{
        listen: options.listen,
        url,
        token,
        account,
        source,
        asker: telling,
        send: egress.send,
        clock,
        signal,
      },
      onEvent(event, bytes) {
        const step = stepOf(event)
        if (account !== undefined || step.scope === 'public') inbox.put(step, bytes)
      },
      onSubscribed: inbox.ring,
      onProblem: options.onProblem ?? (() => {}),
    })
    listening = await started.catch(async (error: unknown) => {
      await close()
      throw error
    })
  }

  /** After a reading that is under way. */
  function inTurn(read: () => Promise<FeedReading>): Promise<FeedReading> {
    const reading = last.then(read).catch(told('written'))
    last = reading.catch(() => {}) // told to whoever asked for it
    return reading
  }

  const read = () => keptAlive(inTurn(readNow))

  const canApply = (held: CopyState) => filters === undefined && isRecent(held)
  const catchUpNow = () =>
    catchUp({ asker, question, copy, inbox, clock, random: Math.random, signal, read: readNow, canApply })

  async function follow(): Promise<void> {
    following ??= listening?.follow()
    for (let failures = 0; !signal.aborted; ) {
      const reading = await inTurn(inbox.isWaiting() ? catchUpNow : readNow).catch(
        ({ message }: Error): FeedReading => ({ kind: 'failed', reason: 'unwritten', message }),
      )
      if (signal.aborted) return
      onReading(reading)
      failures = reading.kind === 'failed' ? failures + 1 : 0
      const { random } = Math
      if (failures > 0) await pause(clock, backoffMs({ failures, refreshMs: everyMs, random }), signal)
      else if (!inbox.isWaiting())
        await pause(clock, jittered(everyMs, random), AbortSignal.any([signal, inbox.next()]))
    }
  }

  return { read, follow: () => keptAlive(follow()), port: listening?.port, close }
}
