/** A length of time as the protocol writes it (docs/protocol.md#envelope; schema core/duration). */
import { type Static, Type } from '@sinclair/typebox'

export const Duration = Type.Object(
  {
    interval: Type.Integer({ minimum: 1 }),
    unit: Type.Union([
      Type.Literal('seconds'),
      Type.Literal('minutes'),
      Type.Literal('hours'),
      Type.Literal('days'),
      Type.Literal('campaign'),
    ]),
  },
  { additionalProperties: false },
)
export type Duration = Static<typeof Duration>

/** Milliseconds of each unit that has a length. */
export const UNIT_MS = { seconds: 1_000, minutes: 60_000, hours: 3_600_000, days: 86_400_000 } as const

/** Milliseconds; a campaign has no length that a clock knows, so it is without end. */
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
