// The JSON behind the page. Scripts may read the same with a bearer key (docs/console.md).

const AGAIN_S = 3 // where no answer says when
/** Said where the server, or a proxy before it, has too much to do or is starting. */
const PASSING = new Set([429, 502, 503, 504])

/** Said by a server that refused. */
class Refused extends Error {
  constructor({ status, headers }, message) {
    super(message)
    this.status = status
    this.after = Number(headers.get('retry-after')) || AGAIN_S
  }
}

/** After how many milliseconds the same may be asked again; undefined: the answer would be the same. */
export function againAfter(error) {
  if (!(error instanceof Refused)) return AGAIN_S * 1_000 // the server was not reached
  return PASSING.has(error.status) ? error.after * 1_000 : undefined
}

/** Undefined for what is no JSON, as a proxy answers. */
function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const listeners = new Set()
const tabs = new BroadcastChannel('session')
const tell = () => {
  for (const told of listeners) told()
}
tabs.addEventListener('message', tell)

/**
 * Calls `told` when the session may be another's, or have ended: the server refuses who asks, or somebody signed in or out in
 * another tab. Gives what ends that.
 */
export function onOtherSession(told) {
  listeners.add(told)
  return () => listeners.delete(told)
}

async function answerOf(response) {
  const text = await response.text()
  const body = parsed(text)
  if (response.ok && (text === '' || body !== undefined)) return body
  if ([401, 403].includes(response.status)) tell()
  throw new Refused(response, body?.error ?? `The server answered ${response.status}`)
}

/** Rejects with `Refused`, or with what fetch says when the server cannot be reached. */
export async function get(path, signal) {
  return answerOf(await fetch(`/console/api/${path}`, { signal, credentials: 'same-origin' }))
}

/** Who is signed in: without `caller` nobody is. */
export const session = () => get('session')

/** Changes something. The session's token is asked for each time, because signing in elsewhere in the browser makes another. */
export async function send(method, path, body) {
  const { csrf } = await session()
  const headers = {
    ...(csrf && { 'x-tributary-csrf': csrf }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const init = { method, headers, credentials: 'same-origin' }
  if (body !== undefined) init.body = JSON.stringify(body)
  const answer = await answerOf(await fetch(`/console/api/${path}`, init))
  if (path === 'session') tabs.postMessage(method)
  return answer
}
