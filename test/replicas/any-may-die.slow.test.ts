/**
 * Three real processes with clocks an hour apart, a PostgreSQL, a plain balancer: while callers of all kinds work, any of them
 * is killed, stands still or is cut off, and the database goes. Slow, because it is a campaign of all faults; `npm test` has
 * one of them, `one-dies.test.ts`. The long form, with what is measured, is bench/replicas-soak.ts.
 */
import { test } from 'tap'
import { NO_POSTGRES } from '../store/support/storages.js'
import { playCampaign } from './support/campaign.js'

test('nothing is torn, lost or doubled, whatever of it fails', { skip: NO_POSTGRES }, async (t) => {
  await playCampaign(t, { replicas: 3, rows: 150, passing: ({ passing }) => passing })
})
