/** Lengths of time and sizes as the configuration file writes them; the file's schema has checked their form. */

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const UNIT_BYTES: Record<string, number> = { B: 1, KiB: 1_024, MiB: 1_024 ** 2, GiB: 1_024 ** 3 }

function measure(text: string, units: Record<string, number>): number {
  const [, amount, unit] = /^(\d+)(\w+)$/.exec(text) ?? []
  return Number(amount) * (units[unit ?? ''] ?? Number.NaN)
}

/** Milliseconds of `250ms`, `30s`, `5m`, `24h`, `7d`. */
export function durationMs(text: string): number {
  return measure(text, UNIT_MS)
}

/** Bytes of `512B`, `256KiB`, `32MiB`, `1GiB`. */
export function sizeBytes(text: string): number {
  return measure(text, UNIT_BYTES)
}
