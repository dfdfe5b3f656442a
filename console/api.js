// The JSON behind the page. Scripts may read the same with a bearer key (docs/console.md).

/** Said by a server that refused. */
export class Refused extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

let csrf

async function answerOf(response) {
  const text = await response.text()
  const body = text === '' ? undefined : JSON.parse(text)
  if (!response.ok)
    throw new Refused(response.status, body?.error ?? `The server answered ${response.status}`)
  return body
}

/** Rejects with `Refused`, or with what fetch says when the server cannot be reached. */
export async function get(path, signal) {
  return answerOf(await fetch(`/console/api/${path}`, { signal, credentials: 'same-origin' }))
}

/** Changes something. */
export async function send(method, path, body) {
  const headers = {
    ...(csrf && { 'x-tributary-csrf': csrf }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  }
  const init = { method, headers, credentials: 'same-origin' }
  if (body !== undefined) init.body = JSON.stringify(body)
  return answerOf(await fetch(`/console/api/${path}`, init))
}

/** Who is signed in: without `caller` nobody is. */
export async function session() {
  const found = await get('session')
  csrf = found.csrf
  return found
}
