/** Documents that clients ask for again and again (RFC 9110, section 13.1.2). */
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'tap'
import { startServer } from '../support/server-fixture.js'

const DOCUMENTS = [
  '/.well-known/agent-card.json',
  '/a2a/.well-known/agent.json',
  '/.well-known/jwks.json',
  '/.well-known/brand.json',
  '/api/registry/agents',
]

async function start(t: Parameters<typeof startServer>[0]) {
  const { privateKey } = generateKeyPairSync('ed25519')
  return startServer(t, {
    signingKey: { keyId: 'k', privateKey },
    registryListing: async () => Buffer.from('{"agents":[],"count":0}'),
  })
}

test('a document is sent again only to who does not have it', async (t) => {
  const { send } = await start(t)
  for (const path of DOCUMENTS) {
    const first = await send(path, {})
    const etag = first.headers.get('etag') ?? ''
    t.match([first.status, etag], [200, /^W\/"[\w-]{20,}"$/], path)
    for (const [condition, status] of [
      [etag, 304],
      [etag.slice(2), 304],
      [`"other", ${etag}`, 304],
      [`${etag} , W/"other"`, 304],
      ['*', 304],
      ['"other"', 200],
      ['', 200],
    ] as const) {
      const again = await send(path, { headers: { 'if-none-match': condition } })
      t.same([again.status, again.text], [status, status === 304 ? '' : first.text], `${path} ${condition}`)
      t.equal(again.headers.get('etag'), etag)
    }
  }
})

test('HEAD tells the length of what GET would send, and of nothing else (RFC 9110, section 8.6)', async (t) => {
  const { send } = await start(t)
  for (const path of DOCUMENTS) {
    const { text, headers } = await send(path, {})
    const length = String(Buffer.byteLength(text))
    for (const condition of ['"other"', headers.get('etag') ?? '']) {
      const head = await send(path, { method: 'HEAD', headers: { 'if-none-match': condition } })
      t.equal(head.headers.get('content-length'), length, `${path} ${condition}`)
    }
  }
})
