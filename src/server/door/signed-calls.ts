/** What a request body asks for, as far as it decides whether the request must be signed. */

/** Methods whose params name a task of ours. */
const CALLS_TOOL = 'tools/call'

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** Every object and list inside a value, itself included. */
function* within(value: unknown): Generator<Record<string, unknown>> {
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (!isObject(next)) continue
    yield next
    for (const held of Object.values(next)) open.push(held) // spread, a long list would overflow the stack
  }
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString())
  } catch {
    return undefined // no JSON: the transport says so
  }
}

/** The tasks that a body of either transport calls, by the names in it. */
export function calledTasks(body: Uint8Array): ReadonlySet<string> {
  const found = new Set<string>()
  for (const { method, params, skill } of within(parsed(body))) {
    if (method === CALLS_TOOL && isObject(params) && typeof params.name === 'string') found.add(params.name)
    if (typeof skill === 'string') found.add(skill)
  }
  return found
}

const PUSH_SETTINGS = ['push_notification_config', 'notification_configs'] as const

/** Whether a value hands over a shared secret for webhooks: whoever can change the request could put in its own. */
export function registersSecret(value: unknown): boolean {
  for (const object of within(value)) {
    for (const name of PUSH_SETTINGS) {
      const settings = object[name]
      const entries = Array.isArray(settings) ? settings : [settings]
      if (
        entries.some(
          (entry) => isObject(entry) && entry.authentication !== undefined && entry.authentication !== null,
        )
      ) {
        return true
      }
    }
  }
  return false
}

/** The same of a request body. */
export function bodyRegistersSecret(body: Uint8Array): boolean {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  // A name may be written with escapes; without any, the bytes tell faster than a parser.
  return (bytes.includes('authentication') || bytes.includes('\\u')) && registersSecret(parsed(body))
}
