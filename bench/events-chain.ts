/**
 * How soon a buyer behind two Tributaries knows of a change at the agent, by events alone: the near one reads on schedule once an
 * hour. `node dist/bench/events-chain.js`
 */
import { randomUUID } from 'node:crypto'
import { startChain } from '../test/events/support/chain.js'
import { configFor, startSubscriber } from '../test/events/support/subscriber.js'
import { row, until } from '../test/support/upstream-world.js'
import { report } from './report.js'

const CHANGES = 5

const endings: (() => unknown)[] = []
const { near, publish } = await startChain({ teardown: (ending) => void endings.unshift(ending) })
const buyer = await startSubscriber({ remembersOnce: true })
await near.call('sync_accounts', {
  idempotency_key: `key-${randomUUID()}`,
  accounts: [
    {
      ...{ brand: { domain: 'acme.example' }, operator: 'agency.example', billing: 'operator' },
      notification_configs: [configFor(buyer.url)],
    },
  ],
})
let longest = 0
for (let change = 1; change <= CHANGES; change += 1) {
  const startedAt = performance.now()
  await publish([row(1, { name: `Name ${change}` }), row(2)])
  await until('the buyer is told', () => buyer.events.length === change)
  longest = Math.max(longest, performance.now() - startedAt)
}
report({
  what: `events: a change reaches a buyer behind two Tributaries, longest of ${CHANGES}`,
  ...{ measured: longest / 1_000, unit: 's', bar: { atMost: 2 } },
})
await buyer.close()
for (const ending of endings) await ending()
