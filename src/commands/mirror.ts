/** `tributary mirror`: a copy of a feed in a folder or a database, kept current until it is told to end. */
import { howMany } from '../adcp/answer.js'
import { forTerminal } from '../adcp/redaction.js'
import type { FeedReading } from '../mirror/feed-client.js'
import { type FeedMirrorOptions, openFeedMirror } from '../mirror/mirror.js'
import { CommandFailure } from './terminal.js'

type MirrorCommand = Pick<
  FeedMirrorOptions,
  'url' | 'token' | 'filters' | 'account' | 'out' | 'format' | 'everyMs' | 'listen' | 'egress'
> & {
  /** One reading, and the end. */
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

/** Throws `CommandFailure` when the copy cannot be opened, and with `once` when it could not be made current. */
export async function mirrorFeed({ once, stdout, stderr, ...options }: MirrorCommand): Promise<void> {
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
