import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { type Test, test } from 'tap'
import { addActionRoutes, addLive } from '../../src/console/console.js'
import { addSignIn, createEntrance, createSessions } from '../../src/console/entrance.js'
import { type AdmissionOptions, createAdmission } from '../../src/server/door/admission.js'
import { noWayOut } from '../support/no-way-out.js'
import { OPERATOR_TOKEN, sha256, startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

type Key = AdmissionOptions['callers']['keys'][number]

const operator: Key = { id: 'op', role: 'operator', tokenSha256: sha256(OPERATOR_TOKEN) }
const settings = (...keys: Key[]) => ({
  callers: { anonymous: 'deny' as const, keys },
  ...{ send: noWayOut, now: Date.now },
})

/** What stands at the console's entrance, with a clock that the test moves and parts that the test names. */
async function start(t: Test, options: AdmissionOptions) {
  const admission = createAdmission(options)
  const shown = { feed: 'one', operations: 'one', changes: 0 }
  const due: (() => void)[] = []
  const did: string[] = []
  const { app, url } = await startServer(t, {
    admission,
    refresh: async (id) => did.push(id) > 0,
    routes(app, { door }) {
      const { addressOf } = door
      const { now } = Date
      const sessions = createSessions({ secret: randomBytes(32), callers: admission, isSecure: false, now })
      const entrance = createEntrance({ door, sessions, admission, onAsked: () => {}, now })
      addSignIn(app, { entrance, sessions, addressOf, identify: admission.identify, version: '0', now })
      addActionRoutes(app, {
        ...{ entrance, actions: ['refresh-upstream'] },
        async act(_action, subject) {
          did.push(subject)
          return { kind: 'done' }
        },
        audit: { last: async () => [] },
      })
      const after = (_ms: number, task: () => void) => {
        due.push(task)
        return () => {}
      }
      addLive(app, {
        ...{ entrance, clock: { now, after } },
        feed: () => shown.feed,
        operations: () => shown.operations,
        changes: () => shown.changes,
      })
    },
  })
  const ask = (path: string, headers: Record<string, string>, body?: object) =>
    fetch(url + path, {
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
      headers: { 'content-type': 'application/json', ...headers },
    })
  const signIn = (key: string) => ask('/console/api/session', {}, { key })
  /** As if the time until the next look had passed. */
  const look = () => {
    for (const task of due.splice(0)) task()
  }
  return { app, admission, shown, did, ask, signIn, look }
}

const bearer = { authorization: `Bearer ${OPERATOR_TOKEN}` }
const ACTION = { action: 'refresh-upstream', subject: 'one' }

test('a token that ends in minutes opens no session of hours, though its caller has a key too', async (t) => {
  const jwt = { verify: async () => ({ kind: 'valid' as const, subject: 'op' }) }
  const callers = { anonymous: 'deny' as const, keys: [operator], jwt }
  const { ask, signIn } = await start(t, { ...settings(), callers })
  const token = 'header.claims.signature'
  const own = await ask('/console/api/session', { authorization: `Bearer ${token}` })
  t.match(await own.json(), { caller: { id: 'op' } }, 'it is the caller')
  const { status, headers } = await signIn(token)
  t.equal(status, 401)
  t.equal(headers.get('set-cookie'), null)
  t.equal((await signIn(OPERATOR_TOKEN)).status, 200)
})

test('an operator that must sign does nothing by a key or a session alone', async (t) => {
  const signing = { source: { keys: [] }, required: true, revoked: [] }
  const send = async () => ({ kind: 'failed' as const, reason: 'unreachable' as const, message: '' })
  const { ask, signIn, did } = await start(t, { ...settings({ ...operator, signing }), send })
  const signedIn = await signIn(OPERATOR_TOKEN)
  const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? ''
  const { csrf } = (await (await ask('/console/api/session', { cookie })).json()) as { csrf: string }
  for (const who of [bearer, { cookie, 'x-tributary-csrf': csrf }]) {
    const refused = await ask('/console/api/actions', who, ACTION)
    t.equal(refused.status, 401)
    t.match(refused.headers.get('www-authenticate'), 'request_signature_required')
    t.equal((await ask('/console/api/audit', who)).status, 200, 'it may look')
  }
  t.equal((await ask('/refresh?upstream=one', bearer, {})).status, 401)
  t.same(did, [])
})

test('a session is for requests without credentials: wrong ones beside it are told so', async (t) => {
  for (const anonymous of ['deny', 'metadata'] as const) {
    const callers = { anonymous, keys: [operator] }
    const { ask, signIn } = await start(t, { ...settings(), callers })
    const cookie = (await signIn(OPERATOR_TOKEN)).headers.get('set-cookie')?.split(';')[0] ?? ''
    t.equal((await ask('/console/api/audit', { cookie })).status, 200)
    for (const wrong of [
      { authorization: 'Bearer wrong' },
      { authorization: 'Basic b3A6b3A=' },
      { 'x-adcp-auth': 'wrong' },
      { 'x-adcp-auth': '' },
    ] as Record<string, string>[]) {
      const refused = await ask('/console/api/audit', { cookie, ...wrong })
      t.match([refused.status, await refused.json()], [401, { error: /not valid/ }], JSON.stringify(wrong))
    }
  }
})

test('an open page is told what its caller may know now, not when it was opened', async (t) => {
  const { admission, shown, ask, look } = await start(t, settings(operator))
  const stream = (await ask('/console/api/live', bearer)).body?.pipeThrough(new TextDecoderStream())
  const reader = stream?.getReader()
  let heard = ''
  /** What is said next; undefined when nothing ever will be. */
  async function next(event: string): Promise<string | undefined> {
    for (;;) {
      const [whole, said] = new RegExp(`event: ${event}\ndata: (.*)\n\n`).exec(heard) ?? []
      if (whole) {
        heard = heard.slice(heard.indexOf(whole) + whole.length)
        return said
      }
      const { done, value = '' } = (await reader?.read()) ?? { done: true }
      if (done) return undefined
      heard += value
    }
  }
  t.same(JSON.parse((await next('changed')) ?? ''), { feed: 'one', operations: 'one', changes: 0 })
  shown.changes = 1
  look()
  t.match(JSON.parse((await next('changed')) ?? ''), { changes: 1 })
  admission.reconfigure(settings({ ...operator, role: 'buyer' }))
  Object.assign(shown, { feed: 'two', operations: 'two', changes: 2 })
  look()
  t.same(JSON.parse((await next('changed')) ?? ''), { feed: 'two' })
  admission.reconfigure(settings())
  shown.feed = 'three'
  look()
  t.equal(await next('changed'), undefined)
})

test('a page that was left before its caller was known takes no place of that caller', async (t) => {
  let asked = 0
  let release = () => {}
  const known = new Promise<void>((resolve) => {
    release = resolve
  })
  const jwt = {
    async verify() {
      asked += 1
      await known
      return { kind: 'valid' as const, subject: 'op' }
    },
  }
  const callers = { anonymous: 'deny' as const, keys: [operator], jwt }
  const { app, ask } = await start(t, { ...settings(), callers })
  const token = { authorization: 'Bearer header.claims.signature' }
  const { port } = app.server.address() as AddressInfo
  const pages = Array.from({ length: 20 }, () => connect(port, '127.0.0.1'))
  for (const page of pages) {
    page.write(
      `GET /console/api/live HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: ${token.authorization}\r\n\r\n`,
    )
  }
  await until(
    () => asked,
    (count) => count === pages.length,
  )
  for (const page of pages) page.destroy()
  await until(
    () => new Promise((resolve) => app.server.getConnections((_error, count) => resolve(count))),
    (count) => count === 0,
  )
  release()
  const { status, body } = await ask('/console/api/live', token)
  t.equal(status, 200)
  await body?.cancel()
})

test('a server that closes waits for no open page, and opens none', async (t) => {
  const { app, ask } = await start(t, settings(operator))
  const open = await ask('/console/api/live', bearer)
  const { port } = app.server.address() as AddressInfo
  const late = connect(port, '127.0.0.1')
  const answer = text(late)
  late.write(
    `GET /console/api/live HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: ${bearer.authorization}\r\n`,
  )
  const [there] = (await once(app.server, 'connection')) as [Socket]
  await until(
    () => there.bytesRead,
    (bytes) => bytes > 0,
  )
  const closed = app.close()
  await until(
    () => app.server.listening,
    (listening) => !listening,
  )
  late.write('\r\n')
  t.match(await answer, /^HTTP\/1\.1 503 [\s\S]*retry-after: 2/)
  await closed
  t.match(await open.text(), /^retry: 2000/)
})
