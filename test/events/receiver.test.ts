import { generateKeyPairSync } from 'node:crypto'
import { test } from 'tap'
import { createSenderKeys, isSameEvents } from '../../src/events/receiver.js'
import type { Send } from '../../src/net/send.js'
import { publicJwk } from '../../src/signing/key.js'

const MINUTE = 60_000
const SENDER = { agentUrl: 'https://far.example/mcp', brandJsonUrl: 'https://far.example/brand.json' }

test('where a sender`s keys are is asked again after ten minutes', async (t) => {
  const brand = JSON.stringify({ agents: [{ url: SENDER.agentUrl }] })
  let asked = 0
  const send: Send = async ({ url }) => {
    if (url !== SENDER.brandJsonUrl) return { kind: 'failed', reason: 'unreachable', message: 'no keys' }
    asked += 1
    return { kind: 'reply', url, status: 200, headers: {}, body: Buffer.from(brand) }
  }
  let now = 0
  const keyOf = createSenderKeys({ send, now: () => now })
  for (const [minutes, times] of [
    [0, 1],
    [9, 1],
    [10, 2],
    [11, 2],
  ] as const) {
    now = minutes * MINUTE
    await keyOf(SENDER, 'a')
    t.equal(asked, times, `after ${minutes} minutes`)
  }
})

/** What a sender's sites answer, and who reads them. */
function sites() {
  const key = { keyId: 'a', privateKey: generateKeyPairSync('ed25519').privateKey }
  const place = (keys: string) => ({ url: SENDER.agentUrl, jwks_uri: `https://far.example/${keys}` })
  const state = { now: 0, brand: { status: 200, agents: [place('keys')] }, asked: [] as string[] }
  const send: Send = async ({ url }) => {
    state.asked.push(url)
    const { status, agents } = state.brand
    if (status === 0) return { kind: 'failed', reason: 'unreachable', message: 'nobody answers' }
    const isBrand = url === SENDER.brandJsonUrl
    const said = isBrand ? { agents } : { keys: url.endsWith('/keys') ? [publicJwk(key)] : [] }
    return {
      ...{ kind: 'reply', url, headers: {}, status: isBrand ? status : 200 },
      body: Buffer.from(JSON.stringify(said)),
    }
  }
  const keyOf = createSenderKeys({ send, now: () => state.now })
  return { ...{ state, place, keyOf }, known: { owner: SENDER.agentUrl, jwk: publicJwk(key) } }
}

test('a key is believed only while the last reading of brand.json leads to it', async (t) => {
  const { state, place, keyOf, known } = sites()
  const [named, other] = [place('keys'), place('others')]
  for (const [brand, answer] of [
    [{ status: 200, agents: [] }, 'unknown'],
    [{ status: 200, agents: [named, named] }, 'unknown'],
    [{ status: 200, agents: [other] }, 'unknown'],
    [{ status: 404, agents: [named] }, 'unavailable'],
    [{ status: 410, agents: [named] }, 'unavailable'],
    [{ status: 0, agents: [named] }, 'unavailable'],
  ] as const) {
    state.brand = { status: 200, agents: [named] }
    state.now += 10 * MINUTE
    t.same(await keyOf(SENDER, 'a'), known)
    state.brand = { ...brand, agents: [...brand.agents] }
    state.now += 9 * MINUTE
    t.same(await keyOf(SENDER, 'a'), known, 'as it was read last')
    state.now += MINUTE
    t.equal(await keyOf(SENDER, 'a'), answer, JSON.stringify(brand))
    state.brand = { status: 200, agents: [named] }
    const asked = state.asked.length
    t.equal(await keyOf(SENDER, 'a'), answer)
    t.equal(state.asked.length, asked, 'it is not asked with each signature')
  }
})

test('of a key set the keys are kept, as far as they are used, and few of them', async (t) => {
  const { key, now } = { key: generateKeyPairSync('ed25519').privateKey, now: () => 0 }
  const jwk = { ...publicJwk({ keyId: 'a', privateKey: key }), x5c: ['x'.repeat(9_000)], more: { n: 1 } }
  const odd = Array.from({ length: 2_000 }, (_, at) => ({ [at.toString(36)]: 0 }))
  const others = Array.from({ length: 40 }, (_, at) => ({
    ...publicJwk({ keyId: `k${at}`, privateKey: key }),
  }))
  const long = { ...jwk, kid: 'l'.repeat(256) }
  const send: Send = async ({ url }) => {
    const said = url.includes('jwks')
      ? { keys: [...odd, long, jwk, ...others] }
      : { agents: [{ url: SENDER.agentUrl }] }
    return { kind: 'reply', url, status: 200, headers: {}, body: Buffer.from(JSON.stringify(said)) }
  }
  const keyOf = createSenderKeys({ send, now })
  t.strictSame(await keyOf(SENDER, 'a'), {
    owner: SENDER.agentUrl,
    jwk: publicJwk({ keyId: 'a', privateKey: key }),
  })
  t.equal(typeof (await keyOf(SENDER, 'k30')), 'object')
  t.equal(await keyOf(SENDER, 'k31'), 'unknown')
  t.equal(await keyOf(SENDER, long.kid), 'unknown')
})

test('signatures that come while brand.json is read wait for it', async (t) => {
  const { state, keyOf, known } = sites()
  t.same(await Promise.all([keyOf(SENDER, 'a'), keyOf(SENDER, 'a')]), [known, known])
  t.equal(state.asked.length, 2, 'brand.json and keys, once each')
})

test('the events that an agent names are the same in any order, and no others', (t) => {
  const own = ['signal.created', 'signal.priced']
  t.ok(isSameEvents(own, own.toReversed()))
  t.notOk(isSameEvents(own, [...own, 'signal.removed']))
  t.notOk(isSameEvents(own, ['signal.created', 'signal.created']))
  for (const named of [undefined, null, 'signal.created signal.priced', { length: 2 }]) {
    t.notOk(isSameEvents(own, named), String(named))
  }
  t.end()
})
