import { hash, randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { test } from 'tap'
import { GOLD_ACCOUNT } from '../../sandbox/discovery.js'
import { type Answer, BUYER, type Signal, startWorld } from '../support/federation.js'

const NORTHWIND = 'northwind'
const TRADE_DESK = { type: 'platform', platform: 'the-trade-desk' }
const account = { account_id: 'gold' }

const atNorthwind = (one: Signal) => one.ext.tributary.offers.find(({ upstream }) => upstream === NORTHWIND)

/** A signal that northwind sells on the-trade-desk and that is not live there. */
function dormant({ signals = [] }: Answer): { signal: Signal; option: string } {
  for (const signal of signals) {
    const offer = atNorthwind(signal)
    const option = signal.pricing_options?.find(({ pricing_option_id: id }) =>
      id.startsWith(`${offer?.handle}.`),
    )
    const served = offer?.deployments.includes('platform:the-trade-desk')
    if (option && served && signal.deployments.every(({ is_live: live }) => !live)) {
      return { signal, option: option.pricing_option_id }
    }
  }
  throw new Error('the sandbox has no such signal')
}

test('an account sees live what it activated, with its key, without waiting for a cycle', async (t) => {
  const world = await startWorld({
    signals: 24,
    config: () => ({
      registries: [],
      upstreams: [{ id: NORTHWIND, url: 'https://signals.northwind.example/mcp' }],
      defaults: { refresh: '1h', timeout: '60s' }, // no cycle comes in this test
      callers: {
        keys: [
          {
            ...{ id: 'buyer', token_sha256: hash('sha256', BUYER, 'hex'), destinations: [TRADE_DESK] },
            accounts: { gold: { [NORTHWIND]: { account_id: GOLD_ACCOUNT } } },
          },
        ],
      },
    }),
  })
  t.teardown(() => world.close())
  const end = Date.now() + 60_000
  async function reads(holds: (page: Answer) => boolean): Promise<Answer> {
    for (;;) {
      const page = await world.wholesale({
        account,
        destinations: [TRADE_DESK],
        pagination: { max_results: 100 },
      })
      if (holds(page) || Date.now() > end) return page
      await wait(20)
    }
  }
  const { signal, option } = dormant(await reads(({ cache_scope: scope }) => scope === 'account'))
  const deploymentsIn = ({ signals = [] }: Answer) =>
    signals.find((one) => one.signal_agent_segment_id === signal.signal_agent_segment_id)?.deployments ?? []
  const isLive = (page: Answer) => deploymentsIn(page).some(({ is_live: live }) => live)

  const asked = {
    signal_agent_segment_id: signal.signal_agent_segment_id,
    destinations: [TRADE_DESK],
    account,
  }
  const activate = (more: object) =>
    world.call('activate_signal', { ...asked, idempotency_key: randomUUID(), ...more })
  t.match(await activate({ pricing_option_id: option }), { status: 'completed' })
  const live = await reads(isLive)
  t.equal(live.cache_scope, 'account')
  t.match(deploymentsIn(live), [{ ...TRADE_DESK, is_live: true, activation_key: { type: /./ } }])

  t.match(await activate({ action: 'deactivate' }), { status: 'completed' })
  const off = await reads((page) => !isLive(page))
  t.match(deploymentsIn(off), [{ ...TRADE_DESK, is_live: false }])
})
