/** Lengths of time and sizes as the configuration file writes them; the file's schema has checked their form. */
import { UNIT_MS } from '../adcp/duration.js'

const SHORT_MS = {
  ms: 1,
  s: UNIT_MS.seconds,
  m: UNIT_MS.minutes,
  h: UNIT_MS.hours,
  d: UNIT_MS.days,
}
const UNIT_BYTES = { B: 1, KiB: 1_024, MiB: 1_024 ** 2, GiB: 1_024 ** 3 }

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
