import { generateKeyPairSync } from 'node:crypto'
import { test } from 'tap'
import { createPost } from '../../src/events/letter.js'
import { createWebhook } from '../../src/events/webhook.js'
import { createEgress } from '../../src/net/egress.js'
import { createSigner, WEBHOOKS } from '../../src/signing/signature.js'
import { startSubscriber } from './support/subscriber.js'

test('of what a receiver has against our signature, only that it cannot read our keys now is tried again', async (t) => {
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  const subscriber = await startSubscriber()
  t.teardown(async () => {
    await subscriber.close()
    await egress.close()
  })
  const { privateKey } = generateKeyPairSync('ed25519')
  const signer = createSigner({ keyId: 'k', privateKey }, WEBHOOKS)
  const deliver = createWebhook({ post: createPost({ send: egress.send, signer }), now: Date.now })
  for (const [code, outcome] of [
    ['signature_jwks_unavailable', { kind: 'undelivered', reason: 'status 401', retryAfterMs: 7_000 }],
    ['signature_key_unknown', { kind: 'rejected', signature: 'webhook_signature_key_unknown' }],
    ['signature_jwks_untrusted', { kind: 'rejected', signature: 'webhook_signature_jwks_untrusted' }],
    ['mode_mismatch', { kind: 'rejected', signature: 'webhook_mode_mismatch' }],
  ] as const) {
    subscriber.answerWith((_, response) => {
      const headers = { 'www-authenticate': `Signature error="webhook_${code}"`, 'retry-after': '7' }
      response.writeHead(401, headers).end()
    })
    t.match(await deliver('buyer', { url: subscriber.url }, '{}'), outcome, code)
  }
})
