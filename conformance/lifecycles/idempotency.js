/** A key is one request: again it is replayed, changed it is refused (specification, "Idempotency"). */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { freshKey } from '../wire.js'

const account = () => ({
  brand: { domain: `${crypto.randomUUID()}.example` },
  operator: 'pinnacle-agency.example',
  billing: 'operator',
})

export const IDEMPOTENCY = [
  {
    name: 'idempotency of sync_accounts',
    release: '3.1',
    steps: {
      'a request is carried out': async ({ call }, state) => {
        state.request = { idempotency_key: freshKey(), accounts: [account()] }
        state.first = await call('sync_accounts', state.request)
        equal(state.first.accounts[0].action, 'created')
        ok(!('replayed' in state.first))
      },
      'the same one is replayed, whatever its context': async ({ call }, { request, first }) => {
        const again = await call('sync_accounts', { ...request, context: { attempt: 2 } })
        equal(again.replayed, true)
        deepEqual(again.accounts, first.accounts)
      },
      'another one under its key is a conflict that echoes nothing': async ({ call }, { request }) => {
        const changed = { ...request, accounts: [account()] }
        const { adcp_error: error } = await call('sync_accounts', changed)
        equal(error.code, 'IDEMPOTENCY_CONFLICT')
        deepEqual(
          Object.keys(error).filter((name) => !['code', 'message', 'recovery'].includes(name)),
          [],
          'members beyond code, message and recovery',
        )
      },
      'a key of one caller says nothing to another': async ({ other }, { request }) => {
        equal((await other('sync_accounts', request)).accounts[0].action, 'created')
      },
      'a mutation without a key is refused': async ({ call }) => {
        const { adcp_error: error } = await call('sync_accounts', { accounts: [account()] })
        equal(error.code, 'INVALID_REQUEST')
        equal(error.field, 'idempotency_key')
      },
    },
  },
]
