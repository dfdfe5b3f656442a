import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { type Said, startOver, TRADE_DESK } from '../support/federation-over.js'
import { captureFolders, hasCaptures, startReplay } from '../support/upstream-captures.js'

const skip = !hasCaptures && '../shared/adcp/captures is absent'

/** What an activation comes as, by the agent that was captured: no more than its release is known to take. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  'inmobi-agent': ['signal_agent_segment_id', 'deployments'],
  'signals-agent-python': ['signals_agent_segment_id', 'platform'],
}
const CURRENT = ['signal_agent_segment_id', 'destinations', 'idempotency_key']

test('agents as they were captured are federated side by side, each usable row of each, and activated', {
  skip,
}, async (t) => {
  const folders = captureFolders()
  const replays = await Promise.all(folders.map(async (id) => ({ id, agent: await startReplay(id) })))
  t.teardown(() => Promise.all(replays.map(({ agent }) => agent.close())))
  const upstreams = replays.map(({ id, agent }) => ({ id, url: agent.url, seeds: ['luxury'] }))
  const nowhere = 'http://127.0.0.1:2' // the providers that the captures name are not asked
  const domains = [
    'tridentauto.example',
    'shopgrid.example',
    'meridiangeo.example',
    'keystoneidentity.example',
  ]
  const hosts = Object.fromEntries(domains.map((domain) => [domain, nowhere]))
  const over = await startOver(t, upstreams, { egress: { allow_networks: ['127.0.0.0/8'], hosts } })
  const { federation } = over
  const contributions = new Map((await federation.contributions()).map((each) => [each.upstream, each]))
  const { signals } = await over.wholesale({ pagination: { max_results: 100 } })

  for (const { id, state, listings, dropped, problem } of federation.statuses()) {
    const { published = 0, reasons } = contributions.get(id) ?? {}
    const unpublished = [...(reasons ?? [])].reduce((sum, [, count]) => sum + count, 0)
    t.equal(published + unpublished, listings, `${id}: what is not published has a reason`)
    if (id === 'aao-training-agent-warming') {
      t.match(problem, { reason: 'server_error' })
      t.comment(`${id} | ${state} | nothing to activate: ${problem?.reason}`)
      continue
    }
    t.ok(published > 0 && !problem, `${id} is in the feed`)

    const offered = signals.find(({ ext }: Said) =>
      ext.tributary.offers.some((offer: Said) => offer.upstream === id),
    )
    const { handle } = offered.ext.tributary.offers.find(({ upstream }: Said) => upstream === id)
    const price = (offered.pricing_options ?? []).find((option: Said) =>
      option.pricing_option_id.startsWith(handle),
    )
    const listed = offered.deployments.find(({ type }: Said) => type === 'platform')
    const destination = listed ? { type: 'platform', platform: listed.platform } : TRADE_DESK
    const first = {
      ...{ signal_agent_segment_id: handle, destinations: [destination], idempotency_key: randomUUID() },
      ...(price && { pricing_option_id: price.pricing_option_id }),
    }
    const attempt = await over.call('activate_signal', first)
    const [choice] = attempt.adcp_error?.details?.choices ?? [] // a request that can be sent as it stands
    const request = choice ?? first
    const answer = choice ? await over.call('activate_signal', choice) : attempt
    const [sent, ...more] = replays.find((each) => each.id === id)?.agent.activations ?? []
    const outcome = answer.adcp_error ? answer.adcp_error.code : answer.status
    const [{ platform, agent_url: agentUrl }] = request.destinations
    t.comment(
      `${id} | ${state} | ${listings} rows ${JSON.stringify(dropped)} | ${platform ?? agentUrl}: ${outcome}`,
    )
    t.match(
      answer,
      { status: 'completed', deployments: [{ ...request.destinations[0], is_live: true }] },
      `${id}: live`,
    )
    t.same(more, [], `${id}: asked once`)
    const words = WORDS[id] ?? CURRENT
    for (const word of words) t.ok(sent && word in sent, `${id}: was told ${word}`)
    if (WORDS[id])
      t.same(
        Object.keys(sent ?? {}).filter((word) => !words.includes(word)),
        [],
        `${id}: and no more`,
      )

    const off = await over.call('activate_signal', {
      ...{ ...request, pricing_option_id: undefined, action: 'deactivate', idempotency_key: randomUUID() },
    })
    const isTold = off.adcp_error === undefined
    t.comment(`${id} | deactivation ${isTold ? 'sent' : `refused: ${off.adcp_error.message}`}`)
    if (!isTold) t.equal(off.adcp_error.field, 'action', `${id}: deactivation is refused for what it is`)
  }
})
