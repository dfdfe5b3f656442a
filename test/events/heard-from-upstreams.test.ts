import { generateKeyPairSync, hash, randomBytes, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { type Test, test } from 'tap'
import { WEBHOOKS } from '../../src/signing/profile.js'
import { createSigner } from '../../src/signing/sign.js'
import { startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row, until } from '../support/upstream-world.js'
import { configFor, startSubscriber } from './support/subscriber.js'

const FAR = 'https://far.example'
const NEAR = 'https://near.example'
const UPSTREAM_KEY = 'the-key-of-the-near-one'
const newKey = (keyId: string) => ({ keyId, privateKey: generateKeyPairSync('ed25519').privateKey })
type Key = ReturnType<typeof newKey>
const ACME = { brand: { domain: 'acme.example' }, operator: 'agency.example', billing: 'operator' }

/** A place that is known before who listens there has started: what comes is passed on. */
async function forwarder(t: Test) {
  let leadTo = (_origin: string) => {}
  const target = new Promise<string>((resolve) => {
    leadTo = resolve
  })
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', async () => {
      const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers
      const reply = await fetch((await target) + request.url, {
        method: 'POST',
        headers: headers as Record<string, string>,
        body: Buffer.concat(chunks),
      })
      const challenge = reply.headers.get('www-authenticate')
      response.writeHead(reply.status, {
        'content-type': 'application/json',
        ...(challenge && { 'www-authenticate': challenge }),
      })
      response.end(await reply.text())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  const { port } = server.address() as { port: number }
  return { url: `http://127.0.0.1:${port}`, leadTo }
}

const eventsOf = (origin: string, { keyId, privateKey }: Key) => ({
  brand_json_url: `${origin}/.well-known/brand.json`,
  signing_key: JSON.stringify({ ...privateKey.export({ format: 'jwk' }), kid: keyId }),
})

/** An agent, a Tributary over it, and a second one over the first: a change at the agent is polled by nobody near. */
async function chain(t: Test) {
  const feed = wholesaleAgent([row(1), row(2)], 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const place = await forwarder(t)
  const [farKey, nearKey] = [newKey('far-key'), newKey('near-key')]
  const networks = { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] }
  const far = await startOver(t, [{ id: 'agent', url: agent.url }], {
    listen: { port: 0, public_url: FAR },
    events: eventsOf(FAR, farKey),
    egress: networks,
    callers: {
      anonymous: 'metadata',
      keys: [
        { id: 'near', token_sha256: hash('sha256', UPSTREAM_KEY, 'hex') },
        { id: 'operator', token_sha256: hash('sha256', 'an-operator-key', 'hex'), role: 'operator' },
      ],
    },
  })
  const auth = { type: 'bearer', token: UPSTREAM_KEY }
  const near = await startOver(t, [{ id: 'far', url: `${FAR}/mcp`, auth }], {
    listen: { port: 0, public_url: NEAR },
    events: { ...eventsOf(NEAR, nearKey), public_url: place.url },
    egress: { ...networks, hosts: { 'far.example': far.federation.url } },
    defaults: { refresh: '1h', stale_after: '2h' },
  })
  place.leadTo(near.federation.url)
  const metric = async (name: string) => {
    const text = await (await near.get('/metrics')).text()
    const line = text.split('\n').find((one) => one.startsWith(name))
    return Number(line?.split(' ').at(-1) ?? 0)
  }
  const listens = async () => (await metric('tributary_upstream_events_total{outcome="challenge"}')) >= 1
  for (const end = Date.now() + 60_000; !(await listens()); ) {
    if (Date.now() > end) throw new Error('the near one never subscribed')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  let version = 1
  return {
    ...{ far, near, farKey, place: place.url, metric },
    async publish(rows: Record<string, unknown>[]) {
      version += 1
      feed.publish(rows, `v${version}`)
      await far.post('/refresh?upstream=agent')
    },
  }
}

test('a change behind two Tributaries reaches a buyer by events alone', async (t) => {
  const { near, publish, metric } = await chain(t)
  const buyer = await startSubscriber({ remembersOnce: true })
  t.teardown(() => buyer.close())
  const answer = await near.call('sync_accounts', {
    idempotency_key: `key-${randomUUID()}`,
    accounts: [{ ...ACME, notification_configs: [configFor(buyer.url)] }],
  })
  t.match(answer.accounts, [{ action: 'created', notification_configs: [{ active: true }] }])
  const took: number[] = []
  for (let change = 1; change <= 3; change += 1) {
    const startedAt = Date.now()
    await publish([row(1, { name: `Name ${change}` }), row(2)])
    await until('the buyer is told', () => buyer.events.length === change)
    took.push(Date.now() - startedAt)
    t.match(buyer.events.at(-1)?.body, {
      notification_type: 'signal.updated',
      event: { payload: { signal: { name: `Name ${change}` } } },
    })
  }
  t.comment(`from the agent to the buyer behind two Tributaries: ${took.join(', ')} ms`)
  t.ok((await metric('tributary_upstream_events_total{outcome="heard"}')) >= 3)
  t.ok(
    (await metric('tributary_upstream_events_gained_seconds_total')) > 3_000,
    'an hour less, nearly, each time',
  )
  t.same(buyer.faults, [])
})

test('strangers, forgers, repeaters and other tenants are refused, and nothing is read for them', async (t) => {
  const { far, near, farKey, place, metric, publish } = await chain(t)
  const { accounts } = await far.call('list_accounts', {}, UPSTREAM_KEY)
  const [{ url }] = accounts[0].notification_configs
  t.match(new URL(url).pathname, /^\/events\/[\w-]{43}$/)
  const body = (more: object = {}) =>
    JSON.stringify({
      idempotency_key: `whk_${randomUUID()}`,
      notification_type: 'signal.updated',
      ...{ subscriber_id: 'tributary', account_id: accounts[0].account_id, ...more },
    })
  const signed = (by: Key, text: string, at = Date.now(), to = url) =>
    createSigner(by, WEBHOOKS)(to, text, at, randomBytes(16).toString('base64url'))
  const send = async (text: string, headers: Record<string, string>, to = url) => {
    const reply = await fetch(to, {
      method: 'POST',
      body: text,
      headers: { 'content-type': 'application/json', ...headers },
    })
    const [, code] = /error="(.+)"/.exec(reply.headers.get('www-authenticate') ?? '') ?? []
    return code ?? reply.status
  }
  const heardSoFar = () => metric('tributary_upstream_events_total{outcome="heard"}')
  const before = await heardSoFar()
  const text = body()
  t.equal(await send(text, {}), 'webhook_signature_required')
  t.equal(await send(text, { authorization: 'Bearer x' }), 'webhook_mode_mismatch')
  t.equal(await send(text, signed(newKey('far-key'), text)), 'webhook_signature_invalid')
  t.equal(await send(text, signed(newKey('another'), text)), 'webhook_signature_key_unknown')
  t.equal(await send(body(), signed(farKey, text)), 'webhook_signature_digest_mismatch')
  t.equal(await send(text, signed(farKey, text, Date.now() - 600_000)), 'webhook_signature_window_invalid')
  t.equal(await send(text, signed(farKey, text, Date.now(), `${place}/mcp`)), 'webhook_signature_invalid')
  t.equal(await send(text, signed(farKey, text), `${place}/events/${'x'.repeat(43)}`), 410)
  for (const more of [
    { account_id: 'acc_other' },
    { subscriber_id: 'other' },
    { type: 'webhook.challenge', challenge: 'x'.repeat(40) },
  ]) {
    const other = body(more)
    t.equal(await send(other, signed(farKey, other)), 403, JSON.stringify(more))
  }
  const twice = `{"account_id":"a",${text.slice(1)}`
  t.equal(await send(twice, signed(farKey, twice)), 'webhook_body_malformed')
  const large = body({ ext: 'x'.repeat(1_100_000) })
  t.equal(await send(large, signed(farKey, large)), 413)
  t.equal(await send(text, { ...signed(farKey, text), 'content-type': 'text/plain' }), 415)
  t.equal(await heardSoFar(), before, 'nothing was heard')

  const headers = signed(farKey, text)
  t.equal(await send(text, headers), 200)
  t.equal(await send(text, headers), 'webhook_signature_replayed')
  t.equal(await send(text, signed(farKey, text)), 200, 'the same event again is taken, and means nothing')
  t.equal(await heardSoFar(), before + 1)
  t.equal(await metric('tributary_upstream_events_total{outcome="duplicate"}'), 1)
  const product = body({ notification_type: 'product.updated' })
  t.equal(await send(product, signed(farKey, product)), 200)
  t.equal(await metric('tributary_upstream_events_total{outcome="ignored"}'), 1)
  await publish([row(1)])
  await until(
    'and what is true is heard',
    async () => (await near.federation.contributions())[0]?.published === 1,
  )
})
