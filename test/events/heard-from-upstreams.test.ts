import { randomBytes, randomUUID } from 'node:crypto'
import tap, { test } from 'tap'
import { createSigner, WEBHOOKS } from '../../src/signing/signature.js'
import { row, until } from '../support/upstream-world.js'
import { type Key, newKey, startChain, UPSTREAM_KEY } from './support/chain.js'
import { configFor, startSubscriber } from './support/subscriber.js'

const ACME = { brand: { domain: 'acme.example' }, operator: 'agency.example', billing: 'operator' }

const { far, near, farKey, place, metric, publish, asked } = await startChain(tap)

test('a change behind two Tributaries reaches a buyer by events alone, until the near one leaves', async (t) => {
  const buyer = await startSubscriber({ remembersOnce: true })
  t.teardown(() => buyer.close())
  const answer = await near.call('sync_accounts', {
    idempotency_key: `key-${randomUUID()}`,
    accounts: [{ ...ACME, notification_configs: [configFor(buyer.url)] }],
  })
  t.match(answer.accounts, [{ action: 'created', notification_configs: [{ active: true }] }])
  const heard = () => metric('tributary_upstream_events_total{outcome="heard"}')
  const before = { asked: await asked(), heard: await heard() }
  const took: number[] = []
  for (let change = 1; change <= 2; change += 1) {
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
  const events = (await heard()) - before.heard
  t.ok(events >= 2)
  t.ok(
    (await asked()) - before.asked <= events,
    'each event costs one question at most, and nobody else asks',
  )
  t.ok(
    (await metric('tributary_upstream_events_gained_seconds_total')) > 3_000,
    'an hour less, nearly, each time',
  )
  t.same(buyer.faults, [])

  const subscribed = async () => {
    const { accounts } = await far.call('list_accounts', {}, UPSTREAM_KEY)
    return accounts[0].notification_configs.map(({ active }: { active: boolean }) => active)
  }
  t.same(await subscribed(), [true])
  near.reload({ upstreams: [] }) // its credentials are not in the configuration any more
  await until('it is unsubscribed', async () => (await subscribed()).length === 0)
  near.reload({})
  await until('it is back, and so are we', async () => (await subscribed())[0] === true)
})

test('strangers, forgers, repeaters and other tenants are refused, and nothing is read for them', async (t) => {
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
  const outcomes = (outcome: string) => metric(`tributary_upstream_events_total{outcome="${outcome}"}`)
  const heardSoFar = () => outcomes('heard')
  const [before, duplicates, ignored] = [
    await heardSoFar(),
    await outcomes('duplicate'),
    await outcomes('ignored'),
  ]
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
  t.equal(await outcomes('duplicate'), duplicates + 1)
  const product = body({ notification_type: 'product.updated' })
  t.equal(await send(product, signed(farKey, product)), 200)
  t.equal(await outcomes('ignored'), ignored + 1)
  const sendFrom = (from: string, by: Key, text: string) =>
    fetch(near.federation.url + new URL(url).pathname, {
      ...{ method: 'POST', body: text },
      headers: {
        ...{ 'content-type': 'application/json', 'x-forwarded-for': from },
        ...signed(by, text),
      },
    })
  const forger = newKey('far-key')
  const replies = await Promise.all(Array.from({ length: 250 }, () => sendFrom('192.0.2.1', forger, text)))
  const turnedAway = replies.filter(({ status }) => status === 429)
  t.ok(turnedAway.length >= 1, `${turnedAway.length} were turned away`)
  t.ok(turnedAway.every(({ headers }) => Number(headers.get('retry-after')) >= 1))
  t.ok(replies.every(({ status }) => status === 429 || status === 401))
  const heard = await heardSoFar()
  const news = body()
  t.equal((await sendFrom('192.0.2.2', farKey, news)).status, 200)
  t.equal(await heardSoFar(), heard + 1, 'what is true is heard meanwhile')

  await publish([row(1)])
  await until(
    'and what is true is heard',
    async () => (await near.federation.contributions())[0]?.published === 1,
  )
})
