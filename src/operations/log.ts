/** The log of a running server: one JSON line an event, without secrets. */
import { type DestinationStream, type Logger, pino, stdSerializers } from 'pino'
import { redactedValue } from '../adcp/redaction.js'

/** Members that a log line must never hold, up to two levels deep. */
const SECRETS = ['authorization', 'token', 'cookie', 'headers', 'credentials', 'password']
const PATHS = SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`])

/** An exception as a line holds it, redacted, because an upstream's text in it may echo a credential. */
function fault(error: unknown): unknown {
  return redactedValue(error instanceof Error ? stdSerializers.err(error) : error)
}

type Destination = DestinationStream & { isTTY?: boolean }

/** The level of the log: as wanted, otherwise `info`, and `warn` on a terminal, where people read the start table. */
export function levelOn({ isTTY }: Destination, wanted: string | undefined): string {
  return wanted ?? (isTTY ? 'warn' : 'info')
}

/** Writes to `destination`. `level`: as configured. */
export function createLog(destination: Destination, level?: string): Logger {
  const redact = { paths: PATHS, censor: '[secret]' }
  const words = (said: unknown) => redactedValue(said)
  const serializers = { err: fault, error: fault, message: words, problem: words }
  return pino({ level: levelOn(destination, level), redact, serializers }, destination)
}
