/**
 * Challenges and events, held against a verifier that is not ours: that of the protocol's own client, `@adcp/sdk`, which
 * conformance brings. Skipped until `npm ci --prefix conformance` has been run.
 */
import { generateKeyPairSync, type JsonWebKey, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { test } from 'tap'
import { startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row, until } from '../support/upstream-world.js'
import { configFor, type Got, startSubscriber } from './support/subscriber.js'

const CONFORMANCE = resolve('conformance')
const SKIP = existsSync(join(CONFORMANCE, 'node_modules/@adcp/sdk')) ? false : 'npm ci --prefix conformance'
const ACME = { brand: { domain: 'acme.example' }, operator: 'agency.example', billing: 'operator' }

type Request = { method: string; url: string; headers: Got['headers']; body: string }
type Sdk = {
  createWebhookVerifier(options: { jwks: unknown }): (request: Request) => Promise<{ status: string }>
  StaticJwksResolver: new (keys: readonly JsonWebKey[]) => unknown
}

for (const [kind, privateKey] of [
  ['Ed25519', generateKeyPairSync('ed25519').privateKey],
  ['P-256', generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey],
] as const) {
  test(`the protocol's own client verifies what is signed with a key of ${kind}`, {
    skip: SKIP,
  }, async (t) => {
    const load = createRequire(join(CONFORMANCE, 'package.json'))
    const { createWebhookVerifier, StaticJwksResolver } = load('@adcp/sdk/signing/server') as Sdk
    const feed = wholesaleAgent([row(1), row(2)], 'v1')
    const agent = await startMcpAgent(feed.handle)
    t.teardown(() => agent.close())
    const jwk = { ...privateKey.export({ format: 'jwk' }), kid: 'events-key' }
    const over = await startOver(t, [{ id: 'north', url: agent.url }], {
      events: {
        brand_json_url: 'https://o.example/.well-known/brand.json',
        signing_key: JSON.stringify(jwk),
      },
      egress: { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] },
    })
    const { keys } = (await (await over.get('/.well-known/jwks.json')).json()) as { keys: JsonWebKey[] }
    // This client was written for 3.0, where keys for webhooks had a purpose of their own.
    const jwks = new StaticJwksResolver(keys.map((key) => ({ ...key, adcp_use: 'webhook-signing' })))
    const verify = createWebhookVerifier({ jwks })
    const one = await startSubscriber()
    t.teardown(() => one.close())
    const input = {
      idempotency_key: `key-${randomUUID()}`,
      accounts: [{ ...ACME, notification_configs: [configFor(one.url)] }],
    }
    t.match(await over.call('sync_accounts', input), { accounts: [{ action: 'created' }] })
    feed.publish([row(1, { name: 'New name' }), row(3)], 'v2')
    await over.post('/refresh?upstream=north')
    await until('all is told', () => one.events.length === 3)
    const request = ({ headers, raw }: Got) => ({ method: 'POST', url: one.url, headers, body: raw })
    for (const got of [...one.challenges, ...one.events]) {
      const verified = await verify(request(got)).catch((error: Error) => error)
      t.match(verified, { status: 'verified' }, got.body.notification_type ?? 'challenge')
      t.match(await verify(request(got)).catch((error: Error) => error), { code: /replayed/ }, 'once')
    }
    const [event] = one.events
    const forged = event && { ...request(event), body: event.raw.replace('signal', 'signaI') }
    await t.rejects(async () => void (forged && (await verify(forged))), 'a letter changed')
  })
}
