import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createListener, type Teller } from '../../src/events/listener.js'
import { publicJwk } from '../../src/signing/key.js'
import { createSigner, WEBHOOKS } from '../../src/signing/signature.js'
import { createReplayGuard } from '../../src/signing/verify.js'
import { createManualClock } from '../support/upstream-clock.js'

const AGENT = 'https://far.example/mcp'
const [SECOND, HOUR] = [1_000, 3_600_000]

type Said = { configs: readonly { url: string }[]; patience: number; answer(more?: object): void }

/** A listener with one upstream, whose answers the test gives, and a clock that the test moves. */
function stage(t: Test) {
  const { clock, advance } = createManualClock()
  const key = { keyId: 'far', privateKey: generateKeyPairSync('ed25519').privateKey }
  const said: Said[] = []
  const problems: string[] = []
  const outcomes: string[] = []
  const teller: Teller = {
    ...{
      id: 'far',
      agentUrl: AGENT,
      brandJsonUrl: 'https://far.example/brand.json',
      types: ['signal.updated'],
    },
    syncAccounts(args, deadline) {
      const { notification_configs: configs } = (
        args as { accounts: { notification_configs: Said['configs'] }[] }
      ).accounts[0] as { notification_configs: Said['configs'] }
      const patience = deadline - clock.now()
      return new Promise((resolve) => {
        const answer = (more: object = {}) =>
          resolve({
            accounts: [{ account_id: 'acc', action: 'updated', notification_configs: configs, ...more }],
          })
        said.push({ configs, patience, answer })
      })
    },
  }
  let tellers = new Map<string, Teller | undefined>([[AGENT, teller]])
  const listener = createListener({
    ...{ tellers: () => tellers, clock, publicUrl: 'https://near.example', secret: randomBytes(32) },
    ...{ newId: randomUUID, account: () => ({}) },
    onOutcome: (outcome) => outcomes.push(outcome),
    heard: () => ({ gainedMs: 0, spared: 0 }),
    keyOf: async () => ({ owner: AGENT, jwk: publicJwk(key) }),
    replay: createReplayGuard({ now: clock.now }),
    onProblem: (problem) => problems.push(problem),
  })
  listener.start()
  t.teardown(() => {
    for (const one of said) one.answer()
    return listener.close()
  })
  const ours = { subscriber_id: 'tributary', account_id: 'acc' }

  /** Sends what the upstream might, to the url that it was given. */
  async function send(from: string, by = key, more: object = {}) {
    const { url } = said[0]?.configs[0] ?? { url: '' }
    const token = new URL(url).pathname.split('/').at(-1) ?? ''
    const text = JSON.stringify({ ...ours, idempotency_key: randomUUID(), ...more })
    const signed = createSigner(by, WEBHOOKS)(url, text, clock.now(), randomBytes(16).toString('base64url'))
    const headers = Object.fromEntries(
      Object.entries({ ...signed, 'content-type': 'application/json' }).map(([name, value]) => [
        name,
        [value],
      ]),
    )
    return await listener.receive({ token, headers, body: Buffer.from(text), from })
  }

  return {
    ...{ said, problems, outcomes, listener, key, send },
    async pass(ms: number) {
      advance(ms)
      for (let turn = 0; turn < 10; turn += 1) await nextTurn()
    },
    async answer(more?: object) {
      said.at(-1)?.answer(more)
      for (let turn = 0; turn < 10; turn += 1) await nextTurn()
    },
    /** `undefined`: it is not known what it declares. */
    become(known: 'declares' | 'unknown' | 'left') {
      const is = known === 'declares' ? teller : undefined
      tellers = new Map(known === 'left' ? [] : [[AGENT, is]])
    },
  }
}

test('a subscription is renewed every hour', async (t) => {
  const { said, pass, answer } = stage(t)
  t.equal(said.length, 1)
  await answer()
  await pass(HOUR - 2 * SECOND)
  t.equal(said.length, 1)
  await pass(2 * SECOND)
  t.equal(said.length, 2)
  t.same(said[1]?.configs, said[0]?.configs)
})

test('why an upstream does not tell is said once', async (t) => {
  const { said, problems, pass, answer } = stage(t)
  await answer({ action: 'failed' })
  await pass(5 * SECOND)
  t.equal(said.length, 2)
  await answer({ action: 'failed' })
  t.same(problems, ['far does not tell us of changes, it is read on schedule: it did not accept us'])
})

test('only an upstream that has left is unsubscribed from, after it has answered, and once', async (t) => {
  const { said, problems, pass, answer, become, listener } = stage(t)
  const path = new URL(said[0]?.configs[0]?.url ?? '').pathname.split('/').at(-1) ?? ''
  const status = async () =>
    (await listener.receive({ token: path, headers: {}, body: new Uint8Array(), from: '' })).status
  await answer()
  become('unknown')
  await pass(SECOND)
  t.equal(said.length, 1, 'what is not known for a moment is no reason to leave')
  t.equal(await status(), 401, 'and it is listened to')
  become('declares')
  await pass(HOUR)
  t.equal(said.length, 2, 'renewed, and not answered yet')
  become('left')
  await pass(SECOND)
  t.equal(await status(), 410)
  t.equal(said.length, 2)
  await answer()
  t.same(said[2]?.configs, [], 'it is told once it has answered')
  t.equal(said[2]?.patience, 10 * SECOND)
  become('declares')
  await pass(SECOND)
  t.equal(said.length, 3, 'one that comes back waits for that answer')
  await answer()
  await pass(SECOND)
  t.equal(said[3]?.configs.length, 1)
  await answer()
  become('left')
  await pass(SECOND)
  await answer({ action: 'failed' })
  await pass(HOUR)
  t.equal(said.length, 5, 'one try')
  t.match(problems, [/far has left and could not be told so/])
})

test('an upstream that has another account for us since is subscribed at again', async (t) => {
  const { pass, answer, key, send } = stage(t)
  const challenge = {
    ...{ type: 'webhook.challenge', challenge: 'c'.repeat(32), seller_agent_url: AGENT, account_id: 'new' },
    ...{ delivery_auth: { mode: 'rfc9421' }, event_types: ['signal.updated'] },
  }
  await answer()
  t.equal((await send('a', key, challenge)).status, 403, 'nobody asked for it')
  t.equal((await send('a', key, { account_id: 'new' })).status, 403)
  await pass(HOUR)
  t.match(await send('a', key, challenge), { status: 200, body: { challenge: challenge.challenge } })
  await answer({ account_id: 'new' })
  t.equal((await send('a', key, { account_id: 'new' })).status, 200)
  t.equal((await send('a')).status, 403, 'what it called us before')
  await pass(HOUR)
  await answer({ action: 'failed' })
  t.equal((await send('a', key, { account_id: 'new' })).status, 200, 'its old list stands where it refuses')
  t.equal((await send('a')).status, 403)
})

test('an upstream that leaves before it has answered the first time is unsubscribed from, too', async (t) => {
  const { said, pass, answer, become } = stage(t)
  become('left')
  await pass(SECOND)
  t.equal(said.length, 1)
  await answer()
  t.same(said[1]?.configs, [])
})

test('what is refused of one sender is bounded in time, and costs no other sender anything', async (t) => {
  const { outcomes, pass, answer, key, send } = stage(t)
  await answer()
  const forger = { keyId: 'far', privateKey: generateKeyPairSync('ed25519').privateKey }
  for (let sent = 0; sent < 50; sent += 1) t.equal((await send('a', forger)).status, 401)
  t.same(await send('a', forger), { status: 429, headers: { 'retry-after': '1' } })
  t.equal((await send('a')).status, 429, 'nothing of it is looked at')
  for (let sent = 0; sent < 60; sent += 1) t.equal((await send('b')).status, 200)
  await pass(SECOND)
  t.equal((await send('a')).status, 200)

  let lookedAt = 0
  for (let sent = 0; sent < 300; sent += 1)
    lookedAt += (await send(`of many ${sent}`, forger)).status === 401 ? 1 : 0
  t.ok(lookedAt >= 150 && lookedAt <= 200, `${lookedAt} of 300, each from another address`)
  t.equal((await send('c')).status, 429, 'an address that nothing true came from has to wait')
  t.equal((await send('b')).status, 200, 'one that is known has not')
  await pass(SECOND)
  t.equal((await send('c')).status, 200)
  t.notOk(outcomes.includes('heard'), 'a message that names no event is no reason to read')
  await send('c', key, { notification_type: 'signal.updated' })
  t.equal(outcomes.at(-1), 'heard')
})
