/**
 * A length of time as the protocol writes it (docs/protocol.md#envelope; schema core/duration), and lengths and sizes as
 * the configuration file writes them (docs/configuration.md).
 */
import { type Static, Type, wordOf } from './schema.js'

/** Milliseconds of each unit that has a length. */
export const UNIT_MS = { seconds: 1_000, minutes: 60_000, hours: 3_600_000, days: 86_400_000 } as const
const SHORT_MS = {
  ms: 1,
  s: UNIT_MS.seconds,
  m: UNIT_MS.minutes,
  h: UNIT_MS.hours,
  d: UNIT_MS.days,
}
const UNIT_BYTES = { B: 1, KiB: 1_024, MiB: 1_024 ** 2, GiB: 1_024 ** 3 }

export const Duration = Type.Object(
  {
    interval: Type.Integer({ minimum: 1 }),
    unit: wordOf(['seconds', 'minutes', 'hours', 'days', 'campaign']),
  },
  { additionalProperties: false },
)
export type Duration = Static<typeof Duration>

/** Milliseconds. The unit `campaign` has no length in time, so it counts as endless. */
export function durationMs({ interval, unit }: Duration): number {
  return unit === 'campaign' ? Number.POSITIVE_INFINITY : interval * UNIT_MS[unit]
}

/** The shortest duration in whole seconds or minutes that is not shorter than `ms`. */
export function durationOf(ms: number): Duration {
  const seconds = Math.max(1, Math.ceil(ms / 1_000))
  return seconds <= 120
    ? { interval: seconds, unit: 'seconds' }
    : { interval: Math.ceil(seconds / 60), unit: 'minutes' }
}

/** The configuration's schema has checked the form. */
function measure(text: string, units: Record<string, number>): number {
  const [, amount, unit] = /^(\d+)(\w+)$/.exec(text) ?? []
  return Number(amount) * (units[unit ?? ''] ?? Number.NaN)
}

/** Milliseconds of `250ms`, `30s`, `5m`, `24h`, `7d`. */
export function parseDuration(text: string): number {
  return measure(text, SHORT_MS)
}

/** Bytes of `512B`, `256KiB`, `32MiB`, `1GiB`. */
export function parseSize(text: string): number {
  return measure(text, UNIT_BYTES)
}
