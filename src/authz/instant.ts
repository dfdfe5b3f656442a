/** The one way a date-time in a provider's file is read (RFC 3339, as the schemas' `format: date-time` says). */

const DATE_TIME = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i

/** Milliseconds since the epoch; undefined for anything but a full date-time with an offset on a day that exists. */
export function instantOf(value: unknown): number | undefined {
  const match = typeof value === 'string' ? DATE_TIME.exec(value) : null
  if (!match) return undefined
  const [text, year, month, day] = match
  const daysInMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > daysInMonth) return undefined // the platform would roll it over into the next month
  const instant = Date.parse(text.toUpperCase())
  return Number.isNaN(instant) ? undefined : instant
}
