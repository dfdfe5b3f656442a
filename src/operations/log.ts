/** The log of a running server: one JSON line an event, without secrets, whatever brings them along. */
import { type DestinationStream, type Logger, pino, stdSerializers } from 'pino'
import { redactedValue } from '../adcp/redaction.js'

/** What a log line must never hold, wherever an object brings it along. */
const SECRETS = ['authorization', 'token', 'cookie', 'headers', 'credentials', 'password']
const PATHS = SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`])

/** An exception as a line holds it; what a stranger said in it may echo a credential. */
function fault(error: unknown): unknown {
  return redactedValue(error instanceof Error ? stdSerializers.err(error) : error)
}

export function createLog(destination: DestinationStream & { isTTY?: boolean }): Logger {
  // On a terminal people read the start table; only problems are logged there.
  const level = destination.isTTY ? 'warn' : 'info'
  const redact = { paths: PATHS, censor: '[secret]' }
  const words = (said: unknown) => redactedValue(said)
  return pino(
    { level, redact, serializers: { err: fault, error: fault, message: words, problem: words } },
    destination,
  )
}
