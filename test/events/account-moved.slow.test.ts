import { hash } from 'node:crypto'
import { type Test, test } from 'tap'
import { BUYER, OPERATOR, startOver } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { row, until } from '../support/upstream-world.js'
import { SIGNED } from './support/signed.js'
import { configFor, startSubscriber } from './support/subscriber.js'

const GOLD = { account: { account_id: 'gold' } }
const callersWith = (account_id: string) => ({
  keys: [
    {
      id: 'buyer',
      token_sha256: hash('sha256', BUYER, 'hex'),
      accounts: { gold: { north: { account_id } } },
    },
    { id: 'operator', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' },
  ],
})

/** An agent with a price for each of its accounts, and one for everybody. */
async function startPriced(t: Test) {
  const prices: Record<string, number> = { first: 31, second: 51 }
  const agent = await startMcpAgent((task, args) => {
    if (task === 'get_adcp_capabilities') {
      return { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['wholesale'] } }
    }
    if (task !== 'get_signals') return undefined
    const { account_id = '' } = (args.account ?? {}) as { account_id?: string }
    const cpm = prices[account_id] ?? 2
    const pricing_options = [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }]
    const cache_scope = account_id in prices ? 'account' : 'public'
    return {
      signals: [row(1, { pricing_options })],
      ...{ cache_scope, wholesale_feed_version: 'v', pricing_version: `p${cpm}` },
    }
  })
  t.teardown(() => agent.close())
  return { prices, url: agent.url }
}

test('what waits is not told any more once the account stands for another one at an upstream', async (t) => {
  const { prices, url } = await startPriced(t)
  const over = await startOver(t, [{ id: 'north', url }], {
    events: SIGNED,
    egress: { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] },
    callers: callersWith('first'),
  })
  const one = await startSubscriber()
  t.teardown(() => one.close())
  const priceOf = async () => (await over.wholesale(GOLD)).signals?.[0]?.pricing_options?.[0]?.cpm
  await until('the account has its price', async () => (await priceOf()) === 31)
  let isAway = true
  one.answerWith((_, response) => void response.writeHead(isAway ? 503 : 200).end())
  const entry = { ...GOLD, notification_configs: [configFor(one.url)] }
  const synced = await over.call('sync_accounts', {
    idempotency_key: 'a-key-of-sixteen-at-least',
    accounts: [entry],
  })
  t.match(synced.accounts, [{ notification_configs: [{ active: true }] }])
  prices.first = 41
  await over.post('/refresh?upstream=north')
  await until('it is told its new price', () => one.events.some(({ raw }) => raw.includes('"cpm":41')))
  const { length } = one.events
  over.reload({ callers: callersWith('second') })
  isAway = false
  await until('the account has the other price', async () => (await priceOf()) === 51)
  await until('it is told', () => one.events.length > length)
  await until('it holds what is read', async () => {
    const { pricing_version: now } = await over.wholesale(GOLD)
    return one.events.at(-1)?.body.ext?.tributary?.pricing_version === now
  })
  const later = one.events.slice(length)
  t.notMatch(later.map(({ raw }) => raw).join('\n'), '"cpm":41', 'not what the account was before')
  t.equal(later[0]?.body.notification_type, 'wholesale_feed.bulk_change')
})
