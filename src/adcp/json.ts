/** What a parsed JSON value is, before anything is known of it. */

/** Whether the value is an object with members, as opposed to null, an array or a scalar. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
