/** Subscriptions where nothing is delivered: all of them are paused. */
import { randomUUID } from 'node:crypto'
import { createSubscriptions } from '../../../src/events/subscriptions.js'
import { webhookPolicy } from '../../../src/events/webhook.js'
import type { Store } from '../../../src/store/store.js'

export const paused = (store: Pick<Store, 'subscriptions'>) =>
  createSubscriptions({ store, newId: randomUUID, policy: () => webhookPolicy({ webhookNetworks: [] }) })
