/** What get_adcp_capabilities says of this agent. */
import type { Config } from '../config/values.js'
import { inventoryOf } from '../explain/contributions.js'
import type { Feed } from '../feed/feed.js'
import { tellsFeedEvents } from './feed-events.js'
import { signingFacts } from './settings.js'

/** `events`: as they were at the start, which is when they are taken up. */
export function factsOf(config: Config, events: Config['events'], feed: Feed) {
  const { callers } = config
  const snapshot = feed.current()
  const { providerDomains = [], types } = snapshot ? inventoryOf(snapshot) : {}
  return {
    providerDomains,
    servesOwned: types?.has('owned') ?? false,
    accountOverlays: callers.keys.some(({ accounts }) => Object.keys(accounts).length > 0),
    signing: signingFacts(config, events),
    feedWebhooks: tellsFeedEvents(config, events),
  }
}
