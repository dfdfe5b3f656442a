/** What a mirror that listens makes of others on its port, and of agents that cannot or must not tell it. */
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { openFeedMirror } from '../../src/mirror/mirror.js'
import type { Clock } from '../../src/net/clock.js'
import { createSigner, WEBHOOKS } from '../../src/signing/signature.js'
import { HMAC, startSubscriber } from '../events/support/subscriber.js'
import { startCommand } from '../support/command.js'
import { BUYER_TOKEN } from '../support/server-fixture.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row, until } from '../support/upstream-world.js'
import { linesPlace } from './support/copies.js'
import { startFeed } from './support/feed.js'
import { FAR_KEY, startTelling } from './support/telling.js'

const ACME = { brand: { domain: 'acme.example' }, operator: 'acme.example', billing: 'operator' }
const rows = [row(1), row(2), row(3)]

async function start(t: Test) {
  const telling = await startTelling(t, rows)
  const way = await telling.way()
  const problems: string[] = []
  const kinds: string[] = []
  const follow = async (more: object = {}) => {
    const mirror = await telling.mirrorAt(await linesPlace(t), way, {
      onProblem: (problem) => void problems.push(problem),
      onReading: ({ kind }) => void kinds.push(kind),
      ...more,
    })
    void mirror.follow()
    return mirror
  }
  const sync = async (notification_configs: object[]) => {
    const input = { idempotency_key: `key-${randomUUID()}`, accounts: [{ ...ACME, notification_configs }] }
    return (await telling.over.call('sync_accounts', input)).accounts[0]
  }
  return { telling, way, problems, kinds, follow, sync }
}

test('strangers, forgers, repeaters and other tenants are refused, and nothing is read for them', async (t) => {
  const { telling, kinds, follow } = await start(t)
  const { port } = await follow()
  await until('it is subscribed, and has read again', () => kinds.length === 2)
  const { accounts } = await telling.over.call('list_accounts', {})
  const { account_id, notification_configs } = accounts[0]
  const [{ subscriber_id, url }] = notification_configs
  const event = (more: object = {}) =>
    JSON.stringify({
      idempotency_key: `whk_${randomUUID()}`,
      notification_type: 'signal.removed',
      event: { event_type: 'signal.removed', payload: { signal_agent_segment_id: 'any' } },
      ...{ subscriber_id, account_id, cache_scope: 'public', ...more },
    })
  const signed = (text: string, key = FAR_KEY, at = Date.now(), to: string = url) =>
    createSigner(key, WEBHOOKS)(to, text, at, randomBytes(16).toString('base64url'))
  const send = async (text: string, headers: Record<string, string>) => {
    const init = { method: 'POST', body: text, headers: { 'content-type': 'application/json', ...headers } }
    const reply = await fetch(place, init)
    const [, code] = /error="(.+)"/.exec(reply.headers.get('www-authenticate') ?? '') ?? []
    return code ?? reply.status
  }
  const place = `http://127.0.0.1:${port}${new URL(url).pathname}`
  const stranger = (keyId: string) => ({ keyId, privateKey: generateKeyPairSync('ed25519').privateKey })
  const text = event()
  t.equal(await send(text, {}), 'webhook_signature_required')
  t.equal(await send(text, { authorization: 'Bearer x' }), 'webhook_mode_mismatch')
  t.equal(await send(text, signed(text, stranger(FAR_KEY.keyId))), 'webhook_signature_invalid')
  t.equal(await send(text, signed(text, stranger('another'))), 'webhook_signature_key_unknown')
  t.equal(await send(event(), signed(text)), 'webhook_signature_digest_mismatch')
  t.equal(await send(text, signed(text, FAR_KEY, Date.now() - 600_000)), 'webhook_signature_window_invalid')
  t.equal(await send(text, signed(text, FAR_KEY, Date.now(), `${url}/other`)), 'webhook_signature_invalid')
  for (const more of [
    { account_id: 'acc_other' },
    { subscriber_id: 'other' },
    { type: 'webhook.challenge', challenge: 'x'.repeat(40) },
  ]) {
    const other = event(more)
    t.equal(await send(other, signed(other)), 403, JSON.stringify(more))
  }
  const large = event({ ext: 'x'.repeat(1_100_000) })
  t.equal(await send(large, signed(large)), 413)
  t.equal(await send(text, { ...signed(text), 'content-type': 'text/plain' }), 415)
  t.equal((await fetch(place)).status, 405)
  t.equal(kinds.length, 2, 'nothing was read')
  const headers = signed(text)
  t.equal(await send(text, headers), 200)
  t.equal(await send(text, headers), 'webhook_signature_replayed')
  t.equal(await send(text, signed(text)), 200, 'the same event again is taken, and means nothing')
  await until('what follows on nothing that is held is a reason to read', () => kinds.length === 3)
  t.same(kinds, ['replaced', 'unchanged', 'unchanged'])
})

test("others' subscriptions stay; where one has a secret the set is left alone, and that is told", async (t) => {
  const { telling, problems, follow, sync } = await start(t)
  const other = await startSubscriber()
  t.teardown(() => other.close())
  const config = { subscriber_id: 'theirs', url: other.url, event_types: ['signal.priced'] }
  await sync([config])
  await follow()
  const names = async () => {
    const { accounts } = await telling.over.call('list_accounts', {})
    return (accounts[0].notification_configs as { subscriber_id: string }[]).map((one) => one.subscriber_id)
  }
  await until('both stand', async () => (await names()).length === 2)
  t.match(await names(), ['theirs', /^mirror-[0-9a-f]{16}$/])
  t.equal(other.challenges.length, 1, 'who stands there is not asked again')

  await sync([{ ...config, authentication: HMAC }])
  await follow()
  await until('it is told', () => problems.length === 1)
  t.match(problems[0], /does not tell what changes, it is asked on schedule: .* secret/)
  t.same(await names(), ['theirs'])
})

test('who is dropped by another that wrote the same set meanwhile is back within seconds', async (t) => {
  const { telling, follow, sync } = await start(t)
  const { clock, advance, next } = createManualClock(Date.now())
  await follow({ clock })
  /** Time passes up to the next thing that is due within a minute: nobody waits for ten. */
  async function untilTrue(what: string, isTrue: () => Promise<boolean>, passes: boolean): Promise<void> {
    for (const end = Date.now() + 60_000; !(await isTrue()); ) {
      if (Date.now() > end) throw new Error(`never: ${what}`)
      const ms = next() ?? Number.POSITIVE_INFINITY
      if (passes && ms <= 60_000) advance(ms)
      await wait(5)
    }
  }
  await untilTrue('it is subscribed', async () => (await telling.subscribed()) === 1, false)
  const other = await startSubscriber()
  t.teardown(() => other.close())
  await sync([{ subscriber_id: 'theirs', url: other.url, event_types: ['signal.priced'] }])
  t.equal(await telling.subscribed(), 1, 'a set is replaced whole')
  await untilTrue('both stand', async () => (await telling.subscribed()) === 2, true)
})

test('who is dropped again each time that it is back looks ever more seldom', async (t) => {
  const { follow, sync } = await start(t)
  const looks: { ms: number; run: () => void }[] = []
  const clock: Clock = {
    now: Date.now,
    after(ms, run) {
      if (ms < 4_000) setImmediate(run)
      else if (ms < 900_000) looks.push({ ms, run })
      return () => {}
    },
  }
  await follow({ clock })
  for (let round = 0; round < 5; round += 1) {
    await until('it is subscribed', () => looks.length === round + 1)
    await sync([])
    looks[round]?.run()
  }
  for (const [round, { ms }] of looks.entries())
    t.ok(round === 0 || ms > 1.5 * (looks[round - 1]?.ms ?? ms), `${Math.round(ms)} ms`)
})

test('an agent that does not tell is read on schedule, and the command says so', async (t) => {
  const { gate } = await startFeed(t)
  const place = await linesPlace(t)
  const listen = ['--listen', 'https://mirror.acme.example/', '--port', '0']
  const command = startCommand([
    'mirror',
    '--url',
    gate.url,
    '--token',
    BUYER_TOKEN,
    '--out',
    place.out,
    ...listen,
  ])
  let said = ''
  command.process.stderr.on('data', (text: string) => {
    said += text
  })
  await command.printed(/^replaced: 250 signals/m)
  await until('it says why', () => /asked on schedule: it declares no feed webhooks/.test(said))
  command.process.kill('SIGTERM')
  t.match(await command.finished, { code: 0 })
})

test('a port that is taken is an error', async (t) => {
  const { telling, way } = await start(t)
  const taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  t.teardown(() => taken.close())
  const { port } = taken.address() as { port: number }
  const place = await linesPlace(t)
  await t.rejects(telling.mirrorAt(place, way, { listen: { url: way.url, port } }), /EADDRINUSE/)
  const mirror = await telling.mirrorAt(place, way)
  t.match(await mirror.read(), { kind: 'replaced' }, 'and nothing is held on to')
})

test('why an agent does not subscribe the mirror is told in part, and without the key', async (t) => {
  const token = 'a-key-of-some-length'
  const told = {
    wholesale_feed_webhooks: { supported: true, event_types: ['signal.removed'] },
    webhook_signing: { supported: true },
    identity: { brand_json_url: 'https://agent.example/.well-known/brand.json' },
  }
  const feed = wholesaleAgent([], 'v1')
  const errors = [{ code: 'REFUSED', message: `no ${token} `.repeat(9_000) }]
  const agent = await startMcpAgent((task, asked) => {
    if (task === 'get_adcp_capabilities') return told
    return task === 'sync_accounts' ? { accounts: [{ action: 'failed', errors }] } : feed.handle(task, asked)
  })
  t.teardown(agent.close)
  const { out } = await linesPlace(t)
  const problems: string[] = []
  const mirror = await openFeedMirror({
    ...{ url: agent.url, token, out, onProblem: (problem) => void problems.push(problem) },
    listen: { url: 'https://mirror.example/told', port: 0 },
  })
  t.teardown(mirror.close)
  void mirror.follow()
  await until('it says why', () => problems.length > 0)
  t.match(problems[0], /asked on schedule: no /)
  t.notMatch(problems[0], token)
  t.ok((problems[0] ?? '').length < 2_000, `${problems[0]?.length} characters`)
})
