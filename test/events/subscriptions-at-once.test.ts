/** Requests of one caller that subscribe at the same time, each of which would fit alone. */
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { type Test, test } from 'tap'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { type Said, startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'
import { configFor, type Got, startSubscriber } from './support/subscriber.js'

const jwk = { ...generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }), kid: 'k' }
const EACH = 5
const AT_ONCE = 16 // challenges of one request

async function proveBound(t: Test, storage: object) {
  const agent = await startMcpAgent(wholesaleAgent([row(1)], 'v1').handle)
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'north', url: agent.url }], {
    events: { brand_json_url: 'https://o.example/.well-known/brand.json', signing_key: JSON.stringify(jwk) },
    egress: { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] },
    ...storage,
  })
  const one = await startSubscriber()
  t.teardown(() => one.close())
  const waiting: (() => void)[] = []
  one.proveWith(({ body }: Got, response: ServerResponse) => {
    waiting.push(() => void response.end(JSON.stringify({ challenge: body.challenge })))
    if (one.challenges.length >= 2 * AT_ONCE) for (const go of waiting.splice(0)) go()
  })
  const request = (name: string) => ({
    idempotency_key: `key-${randomUUID()}`,
    accounts: Array.from({ length: EACH }, (_, at) => ({
      ...{ brand: { domain: `${name}${at}.example` }, operator: 'agency.example', billing: 'operator' },
      notification_configs: Array.from({ length: 16 }, (_, each) =>
        configFor(one.url, { subscriber_id: `s${each}` }),
      ),
    })),
  })
  const requests = ['a', 'b'].map(request)
  const sync = (asked: object): Promise<Said> => over.call('sync_accounts', asked)
  const said = await Promise.all(requests.map(sync))
  // Who has waited for the other for too long, on a busy machine, is told to repeat the request.
  const isLate = ({ adcp_error: error }: Said) => error?.code === 'SERVICE_UNAVAILABLE'
  const answers = await Promise.all(
    said.map((answer, at) => (isLate(answer) ? sync(requests[at] as object) : answer)),
  )
  const rows = answers.flatMap(({ accounts }) => accounts)
  const failed = rows.filter(({ action }) => action === 'failed')
  t.equal(failed.length, 4, 'six accounts of sixteen fit a hundred')
  for (const { errors } of failed) {
    t.match(errors, [{ code: 'INVALID_REQUEST', field: /^notification_configs\[\d+\]\.active$/ }])
  }
  const { accounts } = await over.call('list_accounts', { pagination: { max_results: 100 } })
  const active = accounts.flatMap((account: { notification_configs: { active: boolean }[] }) =>
    account.notification_configs.filter((config) => config.active),
  )
  t.equal(active.length, 96)
}

test('two requests at once are held to the bound of one caller (SQLite)', (t) => proveBound(t, {}))
test('two requests at once are held to the bound of one caller (PostgreSQL)', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (storage)
    await proveBound(t, { storage: { url: storage.url, key: 'a storage key of the tests, long enough' } })
})
