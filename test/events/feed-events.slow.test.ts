import { hash, type JsonWebKey, randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'
import { OPERATOR, type Said, startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row, until } from '../support/upstream-world.js'
import { BRAND_JSON, SIGNED } from './support/signed.js'
import {
  configFor,
  HMAC,
  hmacFault,
  type Subscriber,
  type SubscriberOptions,
  startSubscriber,
} from './support/subscriber.js'

const ACME = { brand: { domain: 'acme.example' }, operator: 'agency.example', billing: 'operator' }
const dearer = [{ pricing_option_id: 'po', model: 'cpm', cpm: 7, currency: 'USD' }]

async function start(t: Test, more: object = {}) {
  const feed = wholesaleAgent([row(1), row(2), row(3)], 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'north', url: agent.url }], {
    events: SIGNED,
    egress: { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] },
    ...more,
  })
  let version = 1
  const { keys } = (await (await over.get('/.well-known/jwks.json')).json()) as { keys: JsonWebKey[] }

  async function subscriber(options: SubscriberOptions = {}): Promise<Subscriber> {
    const one = await startSubscriber({ keys: () => keys, remembersOnce: true, ...options })
    t.teardown(() => one.close())
    return one
  }

  async function sync(notification_configs: object[], entry: object = ACME, token?: string): Promise<Said> {
    const input = {
      idempotency_key: `key-${randomUUID()}`,
      accounts: [{ ...entry, notification_configs }],
    }
    const answer = await over.call('sync_accounts', input, token)
    if (!SCHEMAS_ABSENT) {
      const validate = adcpSchema('account/sync-accounts-response.json')
      t.ok(validate(answer), JSON.stringify(validate.errors))
    }
    return answer.accounts[0]
  }

  return {
    ...over,
    over,
    subscriber,
    sync,
    /** Resolves when it is served. */
    async publish(rows: Record<string, unknown>[]) {
      const served = async () => {
        const { wholesale_feed_version: structure, pricing_version: prices } = await over.wholesale()
        return `${structure} ${prices}`
      }
      const before = await served()
      version += 1
      feed.publish(rows, `v${version}`)
      await over.post('/refresh?upstream=north')
      for (const end = Date.now() + 60_000; (await served()) === before && Date.now() < end; ) {
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    },
  }
}

const told = ({ events }: Subscriber) => events.map(({ body }) => body.notification_type)

test('a subscriber proves its url, is told what changes, and holds the feed by that alone', async (t) => {
  const { over, subscriber, sync, publish } = await start(t)
  const capabilities = await over.call('get_adcp_capabilities', {})
  t.match(capabilities, {
    wholesale_feed_webhooks: { supported: true, event_types: configFor('').event_types },
    webhook_signing: { supported: true },
    identity: { brand_json_url: BRAND_JSON },
  })
  const one = await subscriber()
  const account = await sync([configFor(one.url)])
  t.match(account, { action: 'created', notification_configs: [{ active: true, url: one.url }] })
  t.match(one.challenges, [
    {
      body: {
        account_id: account.account_id,
        subscriber_id: 'mirror',
        seller_agent_url: `${over.federation.url}/mcp`,
        delivery_auth: { mode: 'rfc9421' },
      },
    },
  ])
  const first = await over.wholesale()
  const mirror = new Map<string, Said>(
    first.signals.map((each: Said) => [each.signal_agent_segment_id, each]),
  )

  await publish([row(1, { pricing_options: dearer }), row(2, { name: 'New name' }), row(4)])
  await until('all four are told', () => one.events.length === 4)
  t.same(told(one).sort(), ['signal.created', 'signal.priced', 'signal.removed', 'signal.updated'])
  let { wholesale_feed_version: token, pricing_version: pricing } = first
  for (const { body, headers } of one.events) {
    const { payload, event_type: type } = body.event
    t.equal(headers['x-adcp-notification-type'], type)
    t.same(payload.applies_to, { scope: 'public' })
    t.equal(body.previous_wholesale_feed_version, token, 'each goes on where the last one ended')
    t.equal(body.ext.tributary.previous_pricing_version, pricing)
    token = body.wholesale_feed_version
    pricing = body.ext.tributary.pricing_version
    const id = payload.signal_agent_segment_id
    if (type === 'signal.removed') mirror.delete(id)
    else if (type === 'signal.priced') {
      mirror.set(id, { ...mirror.get(id), pricing_options: payload.pricing_options })
    } else mirror.set(id, payload.signal)
  }
  const second = await over.wholesale()
  const byId = (rows: Iterable<Said>) =>
    [...rows].sort((a, b) => (a.signal_agent_segment_id < b.signal_agent_segment_id ? -1 : 1))
  t.same(byId(mirror.values()), byId(second.signals))
  t.equal(token, second.wholesale_feed_version)
  t.equal(pricing, second.pricing_version)
  t.match(await over.wholesale({ if_wholesale_feed_version: token, if_pricing_version: pricing }), {
    unchanged: true,
  })
  const ids = one.events.map(({ body }) => body.notification_id)
  t.same(ids, [...ids].sort(), 'ids rise')
  t.equal(new Set(one.events.map(({ body }) => body.idempotency_key)).size, 4)
  t.same(one.faults, [])
  const delivered = async () =>
    /tributary_feed_events_total\{outcome="delivered"\} 4/.test(await (await over.get('/metrics')).text())
  while (!(await delivered())) await wait(5) // counted once the answer is there
})

test('many changes are told as one, and a change that the subscriber did not ask for shows by the versions', async (t) => {
  const { subscriber, sync, publish, wholesale, over } = await start(t)
  const [all, prices] = [await subscriber(), await subscriber()]
  const { work } = await over.stored()
  /** The versions that the subscribers hold, each once. */
  async function held(): Promise<Set<string>> {
    const streams = (await work.deliveries(2)).map(({ stream }) => stream as { versions: object })
    return new Set(streams.map(({ versions }) => JSON.stringify(versions)))
  }
  await sync([
    configFor(all.url),
    configFor(prices.url, { subscriber_id: 'prices', event_types: ['signal.priced'] }),
  ])
  const before = await wholesale()
  const [first] = await held()
  await publish(Array.from({ length: 40 }, (_, at) => row(at + 10)))
  await until('the bulk change', () => all.events.length === 1)
  // Who is slower would be told of this change and the next as one.
  await until('who asked for prices passed it over', async () => {
    const now = await held()
    return now.size === 1 && !now.has(first as string)
  })
  t.match(all.events[0]?.body, {
    notification_type: 'wholesale_feed.bulk_change',
    event: {
      entity_type: 'feed',
      payload: { affected_entity_type: 'signal', recommendation: 'wholesale_resync' },
    },
    wholesale_feed_version: (await wholesale()).wholesale_feed_version,
    previous_wholesale_feed_version: before.wholesale_feed_version,
  })
  await publish(
    Array.from({ length: 40 }, (_, at) => row(at + 10, at === 0 ? { pricing_options: dearer } : {})),
  )
  await until('the price', () => prices.events.length === 1 && all.events.length === 2)
  t.same(told(prices), ['signal.priced'])
  t.not(prices.events[0]?.body.previous_wholesale_feed_version, before.wholesale_feed_version)
  t.same([...all.faults, ...prices.faults], [])
})

test('what changes while a url proves itself is told: who reads when it is challenged misses nothing', async (t) => {
  const { over, subscriber, sync, publish } = await start(t)
  let read: Said = {}
  const one = await subscriber({
    async prove({ body }, response) {
      read = await over.wholesale()
      await publish([row(1), row(2), row(3), row(4)])
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ challenge: body.challenge }))
    },
  })
  t.match(await sync([configFor(one.url)]), { notification_configs: [{ active: true }] })
  await until('it is told', () => one.events.length === 1)
  t.match(one.events, [
    {
      body: {
        notification_type: 'signal.created',
        previous_wholesale_feed_version: read.wholesale_feed_version,
      },
    },
  ])
})

test('what does not prove itself is told nothing, and leaves what stood there before', async (t) => {
  const { over, subscriber, sync, publish } = await start(t)
  const good = await subscriber()
  await sync([configFor(good.url)])
  const liar = await subscriber()
  const answers: [string, Parameters<Subscriber['proveWith']>[0]][] = [
    ['another text', (_, response) => void response.end(JSON.stringify({ challenge: 'x'.repeat(40) }))],
    ['nothing', (_, response) => void response.end()],
    [
      'both members',
      ({ body: { challenge } }, response) =>
        void response.end(JSON.stringify({ challenge, token: challenge })),
    ],
    ['a status', (_, response) => void response.writeHead(404).end('{}')],
    ['a redirect', (_, response) => void response.writeHead(307, { location: good.url }).end()],
    ['a hang-up', (_, response) => void response.destroy()],
  ]
  for (const [what, prove] of answers) {
    liar.proveWith(prove)
    t.match(
      await sync([configFor(liar.url)]),
      {
        action: 'failed',
        status: 'rejected',
        errors: [{ code: 'VALIDATION_ERROR', field: 'notification_configs[0].url' }],
      },
      what,
    )
  }
  t.equal(good.challenges.length, 1, 'a redirect is not followed')
  liar.proveWith(({ body }, response) => void response.end(JSON.stringify({ token: body.challenge })))
  const { accounts } = await over.call('list_accounts', {})
  t.match(accounts[0].notification_configs, [{ url: good.url, active: true }], 'the old set stays as it was')
  await publish([row(1)])
  await until('the good one is told', () => good.events.length === 2)
  t.equal(liar.events.length, 0)
  t.match(
    await sync([configFor(liar.url, { subscriber_id: 'alias' })]),
    { action: 'updated' },
    'token is an alias',
  )
  await publish([row(1), row(2)])
  await until('the new one is told', () => liar.events.length === 1)
  t.equal(good.events.length, 2, 'and who was replaced is not')
})

test('a dry run asks nobody; a set that stands is not asked again; pausing stops and coming back says so', async (t) => {
  const { over, subscriber, sync, publish } = await start(t)
  const one = await subscriber()
  const dry = await over.call('sync_accounts', {
    ...{ idempotency_key: `key-${randomUUID()}`, dry_run: true },
    accounts: [{ ...ACME, notification_configs: [configFor(one.url)] }],
  })
  t.match(dry.accounts, [{ action: 'created' }])
  t.equal(one.challenges.length, 0)
  await sync([configFor(one.url)])
  t.match(await sync([configFor(one.url)]), { action: 'unchanged' })
  t.equal(one.challenges.length, 1)
  t.match(await sync([configFor(one.url, { active: false })]), { action: 'updated' })
  await publish([row(1)])
  const watcher = await subscriber()
  await sync([configFor(one.url, { active: false }), configFor(watcher.url, { subscriber_id: 'watcher' })])
  t.match(await sync([configFor(one.url), configFor(watcher.url, { subscriber_id: 'watcher' })]), {
    action: 'updated',
  })
  t.equal(one.challenges.length, 2)
  t.equal(watcher.challenges.length, 1)
  await until('it is told to read again', () => one.events.length === 1)
  t.same(told(one), ['wholesale_feed.bulk_change'])
  t.equal(watcher.events.length, 0)
})

test('deliveries are authenticated as the subscriber asked, secrets are not shown, and a restart goes on', async (t) => {
  const { over, subscriber, sync, publish } = await start(t)
  const one = await subscriber()
  const shown = await sync([configFor(one.url, { authentication: HMAC })])
  t.notMatch(JSON.stringify([shown, await over.call('list_accounts', {})]), HMAC.credentials)
  t.match(one.challenges[0]?.body.delivery_auth, {
    mode: 'HMAC-SHA256',
    credential_fingerprint: /^[0-9a-f]{64}$/,
  })
  await over.restart()
  await publish([row(1)])
  const { wholesale_feed_version: now } = await over.wholesale()
  await until('it is told', () => one.events.at(-1)?.body.wholesale_feed_version === now)
  for (const got of one.events) {
    t.equal(hmacFault(got), undefined)
    t.equal(got.headers['signature-input'], undefined, 'never both')
  }
  t.same(one.faults, [])
})

test('where no key can be found by receivers nothing is declared, and nothing is active', async (t) => {
  for (const events of [{}, { signing_key: SIGNED.signing_key }, { brand_json_url: BRAND_JSON }]) {
    const { over, sync } = await start(t, { events })
    t.notHas(await over.call('get_adcp_capabilities', {}), 'wholesale_feed_webhooks')
    t.match(await sync([configFor('http://127.0.0.1:1/')]), { errors: [{ code: 'UNSUPPORTED_FEATURE' }] })
    t.match(await sync([configFor('http://127.0.0.1:1/', { active: false })]), { action: 'created' })
  }
})

test('a network that is open to upstreams is not open to webhooks', async (t) => {
  const { sync, subscriber } = await start(t, { egress: { allow_networks: ['127.0.0.0/8'] } })
  const one = await subscriber()
  t.match(await sync([configFor(one.url)]), { errors: [{ field: 'notification_configs[0].url' }] })
  t.equal(one.challenges.length, 0)
})

test('who is no caller any more, or whose account is no more, is told nothing more', async (t) => {
  const digest = (token: string) => hash('sha256', token, 'hex')
  const stays = [
    { id: 'buyer', token_sha256: digest('a-buyer-key') },
    { id: 'operator', token_sha256: digest(OPERATOR), role: 'operator' },
  ]
  const left = { id: 'left', token_sha256: digest('left') }
  const accounts = { gold: { north: { account_id: 'n1' } } }
  const keys = [...stays, { id: 'gone', token_sha256: digest('gone') }, { ...left, accounts }]
  const { over, subscriber, sync, publish } = await start(t, { callers: { keys } })
  const [there, gone, without] = [await subscriber(), await subscriber(), await subscriber()]
  t.match(await sync([configFor(there.url)]), { action: 'created' })
  t.match(await sync([configFor(gone.url)], ACME, 'gone'), { action: 'created' })
  const gold = { account: { account_id: 'gold' } }
  t.match(await sync([configFor(without.url)], gold, 'left'), { action: 'updated' })
  await publish([row(1, { name: 'Now' })])
  await until('all are told', () => [there, gone, without].every(({ events }) => events.length > 0))
  over.reload({ callers: { keys: [...stays, left] } })
  for (const id of [2, 3]) {
    const { length } = there.events
    await publish([row(id, { name: 'Later' })])
    await until('who is still there is told', () => there.events.length > length)
  }
  const heard = [...gone.events, ...without.events].map(({ raw }) => raw).join()
  t.notMatch(heard, 'Later')
  t.match(await over.call('list_accounts', {}, 'left'), { accounts: [] })
  t.match(await over.wholesale({ ...gold }, 'left'), { adcp_error: { code: 'ACCOUNT_NOT_FOUND' } })
})

test('a subscriber is told nothing at a place that was closed since, by a reload or a restart', async (t) => {
  for (const how of ['reload', 'restart'] as const) {
    const { over, subscriber, sync, publish } = await start(t)
    const one = await subscriber()
    t.match(await sync([configFor(one.url)]), { notification_configs: [{ active: true }] })
    await over[how]({ egress: { allow_networks: ['127.0.0.0/8'] } })
    await publish([row(1)])
    const metrics = async () => (await over.get('/metrics')).text()
    let told = ''
    for (
      const end = Date.now() + 60_000;
      !/feed_events_total\{/.test(told) && Date.now() < end;
      await wait(10)
    ) {
      told = await metrics()
    }
    t.match(told, /tributary_feed_events_total\{outcome="failed"\} /, how)
    t.same(one.events, [], how)
  }
})
