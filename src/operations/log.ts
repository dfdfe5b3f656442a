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

type Destination = DestinationStream & { isTTY?: boolean }

/** On a terminal people read the start table; only problems are logged there unless they want more. */
export function levelOn({ isTTY }: Destination, wanted: string | undefined): string {
  return wanted ?? (isTTY ? 'warn' : 'info')
}

/** `level`: as configured. */
export function createLog(destination: Destination, level?: string): Logger {
  const redact = { paths: PATHS, censor: '[secret]' }
  const words = (said: unknown) => redactedValue(said)
  const serializers = { err: fault, error: fault, message: words, problem: words }
  return pino({ level: levelOn(destination, level), redact, serializers }, destination)
}
