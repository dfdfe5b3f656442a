import { request } from 'node:http'
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { readAssets } from '../../src/console/console.js'
import { BUYER, digest, KEYS, OPERATOR, read, startConsoleWorld } from './support/console-world.js'

const sent = (key: string) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ key }),
})

/** fetch refuses to send a Host of its own choice. */
function statusFrom(url: string, headers: Record<string, string>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { headers }, (reply) => {
      reply.resume()
      resolve(reply.statusCode)
    })
    asked.on('error', reject).end()
  })
}

test('a key becomes a session, and nothing more', async (t) => {
  const world = await startConsoleWorld()
  t.teardown(() => world.close())
  const { url, apply } = world.federation
  const signIn = async (key: string) => {
    const reply = await read(url, 'session', undefined, sent(key))
    return { ...reply, cookie: reply.headers.get('set-cookie')?.split(';')[0] ?? '' }
  }
  const as = (cookie: string, more: Record<string, string> = {}) => ({ headers: { cookie, ...more } })

  await t.test('without a key there is the name and a form, and no data', async (t) => {
    const page = await fetch(url)
    t.equal(page.status, 200)
    t.match(await page.text(), /<title>Tributary<\/title>/)
    t.same(Object.keys((await read(url, 'session')).body), ['version'])
    for (const path of ['signals', 'facets', 'signal?id=sig_x']) {
      const { status, text } = await read(url, path)
      t.equal(status, 401, path)
      t.notMatch(text, /northwind|sig_/)
    }
  })

  await t.test('the page loads from nowhere else and holds no code of its own', async (t) => {
    const { headers } = await fetch(url)
    const policy = headers.get('content-security-policy') ?? ''
    t.match(policy, /default-src 'none'/)
    t.match(policy, /script-src 'self';/)
    t.notMatch(policy, /unsafe|https?:|\*/)
    t.equal(headers.get('x-content-type-options'), 'nosniff')
  })

  await t.test('all of it is smaller than a photograph', async (t) => {
    const files = await readAssets()
    const packed = [...files.values()].reduce((sum, one) => sum + one.packed().byteLength, 0)
    t.ok(packed < 150 * 1024, `${packed} bytes`)
    for (const [name, { type }] of files) {
      const reply = await fetch(`${url}/console/${name}`)
      t.equal(reply.status, 200, name)
      t.equal(reply.headers.get('content-type'), type)
      const etag = reply.headers.get('etag') ?? ''
      t.match(etag, /^W\//, 'with gzip and without are not the same bytes')
      for (const condition of [etag, `"other", ${etag}`, '*']) {
        const again = await fetch(`${url}/console/${name}`, { headers: { 'if-none-match': condition } })
        t.equal(again.status, 304)
      }
    }
    for (const path of ['..%2fpackage.json', '%2e%2e/package.json', 'lib/preact', 'nothing.js']) {
      t.equal((await fetch(`${url}/console/${path}`)).status, 404, path)
    }
  })

  await t.test('the cookie is for this server alone and holds nothing of the key', async (t) => {
    const { status, headers, text } = await signIn(BUYER)
    t.equal(status, 200)
    const cookie = headers.get('set-cookie') ?? ''
    for (const attribute of ['HttpOnly', 'SameSite=Strict', 'Path=/console']) t.match(cookie, attribute)
    const decoded = cookie + Buffer.from(cookie.split('=')[1] ?? '', 'base64url').toString()
    for (const secret of [BUYER, digest(BUYER)]) {
      t.notMatch(decoded, secret)
      t.notMatch(text, secret)
    }
  })

  await t.test('what is not a key of a caller opens nothing', async (t) => {
    for (const key of ['wrong', 'x'.repeat(9_000), digest(BUYER)]) {
      const { status, headers } = await signIn(key)
      t.equal(status, 401)
      t.equal(headers.get('set-cookie'), null)
    }
    const { status } = await read(url, 'session', undefined, {
      method: 'POST',
      body: '{',
      headers: sent('').headers,
    })
    t.equal(status, 400)
  })

  await t.test('a session is its caller: role and rows are those of the key', async (t) => {
    const { cookie } = await signIn(BUYER)
    const { body } = await read(url, 'session', undefined, as(cookie))
    t.match(body.caller, { id: 'buyer', role: 'buyer' })
    const [own, bearer] = await Promise.all([
      read(url, 'signals?limit=5', undefined, as(cookie)),
      read(url, 'signals?limit=5', BUYER),
    ])
    t.equal(own.text, bearer.text)
  })

  await t.test('a cookie that was changed in any part is nobody', async (t) => {
    const { cookie } = await signIn(BUYER)
    const [id = '', until = '', code = ''] = cookie.replace('tributary_session=', '').split('.')
    const operator = Buffer.from('op').toString('base64url')
    for (const forged of [
      `${operator}.${until}.${code}`,
      `${id}.${Number(until) + 1}.${code}`,
      `${id}.${until}.${code.slice(0, -1)}${code.endsWith('A') ? 'B' : 'A'}`,
      `${id}.${until}.`,
      `${id}..${code}`,
      '',
    ]) {
      const { status } = await read(url, 'signals', undefined, as(`tributary_session=${forged}`))
      t.equal(status, 401, forged)
    }
  })

  await t.test(
    'what changes something needs more than the cookie that a browser adds by itself',
    async (t) => {
      const { cookie } = await signIn(BUYER)
      const { body } = await read(url, 'session', undefined, as(cookie))
      const end = (headers: Record<string, string>) =>
        read(url, 'session', undefined, { method: 'DELETE', ...as(cookie, headers) })
      t.equal((await end({})).status, 403)
      t.equal((await end({ 'x-tributary-csrf': 'made up' })).status, 403)
      const foreign = { origin: 'https://evil.example', 'x-tributary-csrf': String(body.csrf) }
      t.equal((await end(foreign)).status, 403, 'a page of another origin')
      const { status, headers } = await end({ 'x-tributary-csrf': String(body.csrf) })
      t.equal(status, 204)
      t.match(headers.get('set-cookie'), /Max-Age=0/)
      const rebound = { cookie, host: 'evil.example' }
      t.equal(
        await statusFrom(`${url}/console/api/session`, rebound),
        403,
        'a name that was bound to this machine',
      )
    },
  )

  await t.test('a session ends with its key', async (t) => {
    const { cookie } = await signIn(OPERATOR)
    const status = async () => (await read(url, 'signals', undefined, as(cookie))).status
    t.equal(await status(), 200)
    const configured = (keys: readonly object[]) =>
      parseConfig(
        'test',
        JSON.stringify({
          listen: { port: 0 },
          registries: [{ url: world.sandbox.registryUrl, refresh: '1m' }],
          defaults: { refresh: '1m', timeout: '60s' },
          egress: { hosts: world.sandbox.hosts },
          callers: { anonymous: 'deny', keys },
          storage: { url: `file:${world.folder}` },
        }),
        {},
      )
    apply(
      configured(KEYS.map((key) => (key.id === 'op' ? { ...key, token_sha256: digest('another') } : key))),
    )
    t.equal(await status(), 401, 'another key in its place')
    apply(configured(KEYS))
    t.equal(await status(), 200)
    apply(configured(KEYS.filter(({ id }) => id !== 'op')))
    t.equal(await status(), 401, 'no such caller')
    t.equal((await fetch(url)).status, 200, 'the form is there for everybody')
  })

  await t.test('an address that tries very often has to wait', async (t) => {
    const bad = { method: 'POST', body: '{}', headers: sent('').headers }
    const replies = await Promise.all(Array.from({ length: 100 }, () => read(url, 'session', undefined, bad)))
    t.ok(replies.some(({ status, headers }) => status === 429 && headers.has('retry-after')))
  })
})
