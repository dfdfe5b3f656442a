import { hash } from 'node:crypto'
import { test } from 'tap'
import { GOLD_ACCOUNT } from '../../sandbox/discovery.js'
import { type Answer, BUYER, type Signal, startWorld } from '../support/federation.js'
import { until } from '../support/until.js'

const STRANGER = 'another-buyer-key'
const NORTHWIND = 'signals.northwind.example'
const NORTHWIND_URL = `https://${NORTHWIND}/mcp`
const key = (id: string, token: string, accounts: object = {}) => ({
  id,
  token_sha256: hash('sha256', token, 'hex'),
  accounts,
})

/** The prices of one upstream's offers, by signal handle. */
function pricesAt(upstream: string, { signals = [] }: Answer): Map<string, string> {
  return new Map(
    signals.flatMap(({ signal_agent_segment_id: handle, ext, pricing_options = [] }: Signal) => {
      const offer = ext.tributary.offers.find((each) => each.upstream === upstream)
      const own = offer
        ? pricing_options.filter((each) => each.pricing_option_id.startsWith(offer.handle))
        : []
      return own.length > 0 ? [[handle, JSON.stringify(own)]] : []
    }),
  )
}

test('an account sees its own prices, and only where they differ from the rate card', async (t) => {
  const world = await startWorld({
    config: () => ({
      callers: {
        anonymous: 'metadata',
        keys: [
          key('buyer', BUYER, {
            gold: { [NORTHWIND_URL]: { account_id: GOLD_ACCOUNT } },
            plain: { [NORTHWIND_URL]: { account_id: 'acct_without_a_deal' } },
          }),
          key('stranger', STRANGER),
        ],
      },
    }),
  })
  t.teardown(() => world.close())
  const as = (account_id: string, input: object = {}, token?: string) =>
    world.wholesale({ account: { account_id }, ...input }, token)
  /** What several readers see, asked one after the other; and the rate card once more. */
  async function read() {
    const [open, gold, plain] = [await world.wholesale(), await as('gold'), await as('plain')]
    const tokens = {
      if_wholesale_feed_version: gold.wholesale_feed_version,
      if_pricing_version: gold.pricing_version,
    }
    const [known, asked] = [await as('gold', tokens), await world.wholesale(tokens)]
    return { open, gold, plain, known, asked, after: await world.wholesale() }
  }
  type Seen = Awaited<ReturnType<typeof read>>
  // Of one generation: rows that wait for a provider's file may come in between.
  const isSettled = ({ open, gold, after }: Seen) =>
    gold.cache_scope === 'account' &&
    gold.pagination?.total_count === open.pagination?.total_count &&
    after.wholesale_feed_version === open.wholesale_feed_version
  const { open, gold, plain, known, asked } = await until(read, isSettled)
  t.equal(gold.cache_scope, 'account')
  t.not(gold.pricing_version, open.pricing_version)
  const [openPrices, goldPrices] = [pricesAt(NORTHWIND, open), pricesAt(NORTHWIND, gold)]
  t.ok(goldPrices.size > 0)
  for (const [handle, prices] of goldPrices) t.not(prices, openPrices.get(handle), 'a price of its own')
  const other = 'signals.meridian.example'
  t.same([...pricesAt(other, gold)], [...pricesAt(other, open)], "other upstreams' prices are the rate card")

  t.match(plain, {
    cache_scope: 'public',
    wholesale_feed_version: open.wholesale_feed_version,
    pricing_version: open.pricing_version,
  })
  t.equal(known.unchanged, true)
  t.notOk('unchanged' in asked, "an account's token says nothing about the public feed")
  const cursor = gold.pagination?.cursor
  t.match(await world.wholesale({ pagination: { cursor } }), {
    status: 'failed',
    adcp_error: { code: 'INVALID_REQUEST', field: 'pagination.cursor' },
  })
  const foreign = await as('gold', {}, STRANGER)
  t.match(foreign, { status: 'failed', adcp_error: { code: 'ACCOUNT_NOT_FOUND' } })
  t.same(
    foreign.adcp_error,
    (await as('no-such-account', {}, STRANGER)).adcp_error,
    'foreign and missing look alike',
  )
})
