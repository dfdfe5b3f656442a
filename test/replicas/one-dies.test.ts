/**
 * Two real processes on a PostgreSQL behind a plain balancer: one is killed while callers of all kinds work, and comes back.
 * `any-may-die.slow.test.ts` has all faults, and three processes.
 */
import { test } from 'tap'
import { NO_POSTGRES } from '../store/support/storages.js'
import { playCampaign } from './support/campaign.js'

test('nothing is torn, lost or doubled when one of them dies', { skip: NO_POSTGRES }, async (t) => {
  await playCampaign(t, { replicas: 2, rows: 60, passing: () => [] })
})
