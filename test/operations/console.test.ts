import { hash } from 'node:crypto'
import { test } from 'tap'
import { startSandbox } from '../../sandbox/world.js'
import { openTributary } from '../support/listing-registry.js'
import { startMcpAgent } from '../support/upstream-agent.js'

const OPERATOR = 'operator:key'
const BUYER = 'buyer-key'
const basic = (password: string) => `Basic ${Buffer.from(`anybody:${password}`).toString('base64')}`

test('the console', async (t) => {
  const sandbox = await startSandbox({ signals: 48 })
  t.teardown(() => sandbox.close())
  const hostile = await startMcpAgent((task) =>
    task === 'get_adcp_capabilities'
      ? { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['wholesale'] } }
      : { status: 'failed', adcp_error: { code: 'INVALID_REQUEST', message: '<script>alert("1")</script>' } },
  )
  t.teardown(hostile.close)
  const { url, ready, feed } = await openTributary(t, {
    registries: [{ url: sandbox.registryUrl }],
    upstreams: [{ id: 'hostile', url: hostile.url }],
    egress: { hosts: sandbox.hosts, allow_networks: ['127.0.0.0/8'] },
    callers: {
      anonymous: 'metadata',
      keys: [
        { id: 'op', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' },
        { id: 'buyer', token_sha256: hash('sha256', BUYER, 'hex') },
      ],
    },
  })
  await ready
  const open = async (authorization?: string) => {
    const reply = await fetch(url, { headers: authorization ? { authorization } : {} })
    return { status: reply.status, headers: reply.headers, text: await reply.text() }
  }

  await t.test('shows an operator what each upstream, registry and provider gives', async (t) => {
    for (const credentials of [basic(OPERATOR), `Bearer ${OPERATOR}`]) {
      const { status, headers, text } = await open(credentials)
      t.equal(status, 200)
      t.match(headers.get('content-type'), /^text\/html/)
      t.equal(headers.get('cache-control'), 'no-store')
      t.match(text, new RegExp(`<dt>snapshot</dt><dd>${feed.current()?.id}</dd>`))
      t.match(text, new RegExp(`<dt>signals</dt><dd>${feed.current()?.shown.length}</dd>`))
      t.match(text, /<td>signals\.northwind\.example<\/td><td>fresh<\/td><td>22<\/td><td>22<\/td>/)
      t.match(text, /agent_not_listed/, 'why a signal is missing')
      t.match(text, new RegExp(`<td>${sandbox.registryUrl}</td>`))
      t.match(text, /<td>larderloyalty\.example<\/td><td>held<\/td>/)
    }
  })

  await t.test('shows nobody else anything, and asks a browser for the key', async (t) => {
    for (const credentials of [undefined, basic(BUYER), basic('wrong'), 'Basic !', `Bearer ${BUYER}`]) {
      const { status, headers, text } = await open(credentials)
      t.equal(status, 401)
      t.match(headers.get('www-authenticate'), /^Basic realm=/)
      t.notMatch(text, /northwind|<td>/)
    }
  })

  await t.test('takes no word of a stranger for markup, and runs no script', async (t) => {
    const { headers, text } = await open(basic(OPERATOR))
    t.match(headers.get('content-security-policy'), /^default-src 'none'/)
    t.match(text, '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;')
    t.notMatch(text, /<script/)
  })
})
