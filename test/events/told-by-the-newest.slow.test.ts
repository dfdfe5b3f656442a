/** Two processes on one database, of which the one that tells subscribers has the older file. */
import { generateKeyPairSync, hash, randomUUID } from 'node:crypto'
import { test } from 'tap'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row, until } from '../support/upstream-world.js'
import { configFor, startSubscriber } from './support/subscriber.js'

const ACME = { brand: { domain: 'acme.example' }, operator: 'agency.example', billing: 'operator' }

test('a caller that only the newer file names is told while a process with the older one lives', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const feed = wholesaleAgent([row(1), row(2)], 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(() => agent.close())
  const jwk = { ...generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }), kid: 'events-key' }
  const startWith = (...callers: string[]) =>
    startOver(t, [{ id: 'north', url: agent.url }], {
      events: {
        brand_json_url: 'https://o.example/.well-known/brand.json',
        signing_key: JSON.stringify(jwk),
      },
      egress: { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] },
      callers: {
        anonymous: 'metadata',
        keys: callers.map((id) => ({ id, token_sha256: hash('sha256', `key-of-${id}`, 'hex') })),
      },
      storage: { url: storage.url, key: 'a storage key of the tests, long enough' },
      defaults: { refresh: '1s' },
    })
  await startWith('old')
  const newest = await startWith('old', 'new')
  const one = await startSubscriber()
  t.teardown(() => one.close())
  const input = {
    idempotency_key: `key-${randomUUID()}`,
    accounts: [{ ...ACME, notification_configs: [configFor(one.url)] }],
  }
  t.match(await newest.call('sync_accounts', input, 'key-of-new'), { accounts: [{ action: 'created' }] })
  feed.publish([row(1, { name: 'New name' }), row(2)], 'v2')
  await until('it is told', () => one.events.length > 0)
  t.match(one.events[0]?.body, { notification_type: 'signal.updated' })
})
