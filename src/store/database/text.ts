/** What both databases keep of a text: PostgreSQL takes no U+0000, and neither takes half of a surrogate pair. */

const REPLACEMENT = '\ufffd'

/** The same text, with U+FFFD for what no database takes: the same for what is written and for what is looked for. */
function storable(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed()
  return whole.includes('\0') ? whole.replaceAll('\0', REPLACEMENT) : whole
}

/** A parameter of a statement, ready to be bound. */
export function bound(value: unknown): unknown {
  return typeof value === 'string' ? storable(value) : value
}

/** JSON whose texts the databases can take out of it. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value)
  // JSON escapes what is not storable, and little else.
  return json.includes('\\u') ? JSON.stringify(value, (_name, member: unknown) => bound(member)) : json
}
