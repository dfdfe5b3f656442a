/**
 * Subscriptions of an account (schema core/notification-config; storyboards notification-config-lifecycle, -rejections
 * and -event-scope of 3.1 and 3.2): a set is replaced whole or stays as it was, and credentials never come back.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { freshKey } from '../wire.js'

const NATURAL = {
  brand: { domain: 'acmeoutdoor.example' },
  operator: 'pinnacle-agency.example',
  sandbox: true,
}
const CREDENTIALS = 'a-secret-of-at-least-32-characters-000'
const config = (more = {}) => ({
  subscriber_id: 'buyer-primary',
  url: 'https://buyer.example/webhooks/adcp',
  event_types: ['creative.status_changed'],
  active: false,
  ...more,
})

async function sync(call, row) {
  const { accounts } = await call('sync_accounts', { idempotency_key: freshKey(), accounts: [row] })
  return accounts[0]
}

async function listed(call, id) {
  const { accounts } = await call('list_accounts', {
    account: { account_id: id },
    status: 'active',
    sandbox: true,
  })
  equal(accounts.length, 1)
  return accounts[0]
}

const declare = { ...NATURAL, billing: 'operator', payment_terms: 'net_60' }

const LIFECYCLE = {
  name: 'notification-config lifecycle',
  release: '3.1',
  steps: {
    'a paused entry is stored and echoed without its credentials': async ({ call }, state) => {
      const secret = { authentication: { schemes: ['Bearer'], credentials: CREDENTIALS } }
      const row = await sync(call, { ...declare, notification_configs: [config(secret)] })
      ok(['created', 'updated'].includes(row.action), row.action)
      state.id = row.account_id
      equal(row.notification_configs[0].subscriber_id, 'buyer-primary')
      equal(row.notification_configs[0].active, false)
      ok(!JSON.stringify(row).includes(CREDENTIALS), 'credentials stay here')
    },
    'list_accounts shows the same': async ({ call }, { id }) => {
      const account = await listed(call, id)
      deepEqual(account.notification_configs[0].event_types, ['creative.status_changed'])
      ok(!JSON.stringify(account).includes(CREDENTIALS), 'credentials stay here')
    },
    'an array takes the place of the whole set': async ({ call }, { id }) => {
      const entries = [config({ subscriber_id: 'buyer-secondary', event_types: ['creative.purged'] })]
      const changed = { account: { account_id: id }, payment_terms: 'net_45', notification_configs: entries }
      const row = await sync(call, changed)
      equal(row.action, 'updated')
      deepEqual(
        row.notification_configs.map(({ subscriber_id: name }) => name),
        ['buyer-secondary'],
      )
    },
    'a row without the field leaves the set': async ({ call }, { id }) => {
      await sync(call, { account: { account_id: id }, payment_terms: 'net_30' })
      equal((await listed(call, id)).notification_configs.length, 1)
    },
    'an empty array clears it and is echoed': async ({ call }, { id }) => {
      const row = await sync(call, { account: { account_id: id }, notification_configs: [] })
      deepEqual(row.notification_configs, [])
      deepEqual((await listed(call, id)).notification_configs, [])
    },
  },
}

async function rejects(call, id, entries, field) {
  const row = await sync(call, { account: { account_id: id }, notification_configs: entries })
  equal(row.action, 'failed')
  ok(['INVALID_REQUEST', 'VALIDATION_ERROR'].includes(row.errors[0].code), row.errors[0].code)
  return { row, field, found: row.errors[0].field }
}

const twice = [config({ subscriber_id: 'same' }), config({ subscriber_id: 'same' })]

const REJECTIONS = {
  name: 'notification-config rejections',
  release: '3.1',
  steps: {
    'a good set stands': async ({ call }, state) => {
      state.id = (await sync(call, { ...declare, notification_configs: [config()] })).account_id
    },
    'a type that is not anchored at accounts is refused, at its place': async ({ call }, { id }) => {
      const { field, found } = await rejects(
        call,
        id,
        [config({ event_types: ['scheduled'] })],
        'notification_configs[0].event_types[0]',
      )
      equal(found, field)
    },
    'a second entry of one subscriber is refused, at its place': async ({ call }, { id }) => {
      const { field, found } = await rejects(call, id, twice, 'notification_configs[1].subscriber_id')
      equal(found, field)
    },
    'the row says rejected': async ({ call }, { id }) => {
      equal((await rejects(call, id, twice)).row.status, 'rejected')
    },
    'an address that is no https is refused, paused or not': async ({ call }, { id }) => {
      await rejects(call, id, [config({ url: 'http://buyer.example/hook' })])
    },
    'one bad entry leaves the old set': async ({ call }, { id }) => {
      await rejects(call, id, [config({ subscriber_id: 'good-one' }), config({ url: 'nonsense' })])
      const { notification_configs: configs } = await listed(call, id)
      deepEqual(
        configs.map(({ subscriber_id: name }) => name),
        ['buyer-primary'],
      )
    },
  },
}

export const NOTIFICATION_CONFIGS = [LIFECYCLE, REJECTIONS]
