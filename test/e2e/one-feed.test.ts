import { test } from 'tap'
import { type Signal, startWorld } from '../support/federation.js'

/** Provider domain and the host that its file really lies on: one of them has only a pointer. */
const PROVIDERS = [
  ['motorledger.example', 'motorledger.example'],
  ['larderloyalty.example', 'larderloyalty.example'],
  ['atlasb2b.example', 'rights.ledgerline.example'],
] as const

type Definition = { id: string; consent_basis?: string[]; art9_basis?: string }

/** The provider's own definitions, from the file that it really serves. */
function definitions(file: unknown): Map<string, Definition> {
  const { signals = [] } = (file ?? {}) as { signals?: Definition[] }
  return new Map(signals.map((definition) => [definition.id, definition]))
}

/** What one upstream claims, asked without Tributary in between. */
async function meridianRows(hosts: Readonly<Record<string, string>>): Promise<Map<string, unknown>> {
  const response = await fetch(`${hosts['signals.meridian.example']}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name: 'get_signals',
        arguments: { discovery_mode: 'wholesale', pagination: { max_results: 100 } },
      },
    }),
  })
  const { result } = (await response.json()) as { result: { structuredContent: { signals: Signal[] } } }
  return new Map(
    result.structuredContent.signals.map(({ signal_ref, consent_basis }) => [
      `${signal_ref.data_provider_domain} ${signal_ref.signal_id}`,
      consent_basis,
    ]),
  )
}

test('many agents in, one verified feed out', async (t) => {
  const world = await startWorld()
  t.teardown(() => world.close())
  const pages = await world.walk()
  const signals = pages.flatMap((page) => page.signals ?? [])
  const offersOf = (signal: Signal) => signal.ext.tributary.offers
  const upstreamsOf = (signal: Signal) => offersOf(signal).map(({ upstream }) => upstream)

  await t.test(
    'a signal that two upstreams offer is one row with the prices and deployments of both',
    async (t) => {
      const shared = signals.filter(
        (signal) =>
          upstreamsOf(signal).includes('signals.northwind.example') &&
          upstreamsOf(signal).includes('signals.meridian.example'),
      )
      t.ok(shared.length > 0, `${shared.length} signals are offered by both`)
      for (const signal of shared) {
        const refs = signals.filter(
          (other) => JSON.stringify(other.signal_ref) === JSON.stringify(signal.signal_ref),
        )
        t.equal(refs.length, 1, 'one row')
        const optionIds = (signal.pricing_options ?? []).map((option) => option.pricing_option_id)
        for (const offer of offersOf(signal)) {
          t.equal(offer.verdict, 'authorized')
          t.ok(
            optionIds.some((id) => id.startsWith(offer.handle)),
            `a price of ${offer.upstream}`,
          )
          t.ok(offer.deployments.length > 0, `a deployment of ${offer.upstream}`)
        }
      }
      const both = shared.map(({ deployments }) => new Set(deployments.map(({ is_live }) => is_live)).size)
      t.ok(both.includes(2), 'one of them is live at one upstream and not at the other')
    },
  )

  await t.test('the unauthorized reseller contributes nothing and is named with its reason', async (t) => {
    t.same(
      signals.filter((signal) => upstreamsOf(signal).includes('signals.gullwing.example')),
      [],
    )
    const reseller = (await world.federation.contributions()).find(
      ({ upstream }) => upstream === 'signals.gullwing.example',
    )
    t.equal(reseller?.published, 0)
    t.ok((reseller?.reasons.get('agent_not_listed') ?? 0) > 0)
    t.match(reseller?.hint, /slash|letter case/, 'and the near miss is explained')
  })

  await t.test('the dead agent appears in incomplete[]', (t) => {
    const entries = pages.flatMap((page) => page.incomplete ?? [])
    t.match(entries, [{ scope: 'wholesale_feed', description: /signals\.fogbank\.example is absent/ }])
    t.end()
  })

  await t.test("consent_basis is the provider's, whatever the upstream row says", async (t) => {
    const claimed = await meridianRows(world.sandbox.hosts)
    let overruled = 0
    for (const [domain, host] of PROVIDERS) {
      const known = definitions(world.sandbox.provider(host))
      const ours = signals.filter(({ signal_ref }) => signal_ref.data_provider_domain === domain)
      t.ok(ours.length > 0, `${ours.length} signals of ${domain}`)
      for (const signal of ours) {
        const definition = known.get(signal.signal_ref.signal_id)
        t.same(signal.consent_basis, definition?.consent_basis)
        t.same(signal.art9_basis, definition?.art9_basis)
        const claim = claimed.get(`${domain} ${signal.signal_ref.signal_id}`)
        if (claim && JSON.stringify(claim) !== JSON.stringify(definition?.consent_basis)) overruled += 1
      }
    }
    t.ok(overruled > 0, `${overruled} rows of an upstream claimed another basis`)
  })
})
