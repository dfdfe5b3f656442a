import { test } from 'tap'
import { DEAL, startScripted, until } from '../composition/support/scripted.js'
import { type Agent, ownRow, providerRow } from '../composition/support/scripted-agents.js'

test('an account is explained as everybody is: how it is read, what it alone is offered, what it is refused', async (t) => {
  const world = await startScripted(t, { agents: 2 })
  const [north, south] = world.agents as [Agent, Agent]
  for (const agent of world.agents) agent.offer([ownRow(agent.url, 0, 4)])
  north.offer([ownRow(north.url, 0, 4), ownRow(north.url, 5, 4)])
  const nameless = { ...ownRow(north.url, 8, 1), name: undefined }
  north.offerGold([ownRow(north.url, 0, 1), providerRow('gamma.example', 7, 1), nameless])
  const statics = world.agents.map((agent) => ({ id: agent.name, agent }))
  await world.start({ statics, deals: [north, south] })
  const { signals = [] } = await until(
    () => world.page(DEAL),
    (answer) => answer.pagination?.total_count === 3,
  )
  const alone = signals.find(({ signal_ref: ref }) => ref.scope === 'data_provider')
  const { signal_agent_segment_id: handle } = alone ?? { signal_agent_segment_id: '' }

  const upstream = async (ref: string) => (await world.explain({ ref })).upstreams[0]
  const account = { caller: 'reader', account: 'deal', state: 'fresh' }
  t.match((await upstream('a0'))?.accounts, [{ ...account, rate_card: false, rows: 2 }])
  t.match((await upstream('a1'))?.accounts, [{ ...account, rate_card: true, rows: 0 }])

  t.match(
    await world.explain({ ref: 'gamma.example/s7' }),
    { reason: 'not_offered' },
    'by nobody to everybody',
  )
  const mine = { caller: 'reader', account: 'deal' }
  t.match(await world.explain({ ...mine, ref: handle }), {
    reason: 'present',
    signal: { handle, offers: [{ upstream: 'a0', fate: 'stands' }] },
    view: { ...mine, access: 'full', prices: 'shown' },
    snapshot: { signals: 3 },
  })
  const refused = { reason: 'refused_row', detail: 'bad_name' }
  t.match(await world.explain({ ...mine, ref: 'own_8' }), refused)
  t.match(await world.explain({ ref: 'own_8' }), { reason: 'unknown' })
  for (const ref of [`${north.url}#own_5`, 'own_5']) {
    t.match(await world.explain({ ref, caller: 'reader' }), { reason: 'present' }, 'for everybody')
    const told = await world.explain({ ...mine, ref })
    t.match(told, { kind: 'signal', reason: 'not_for_account', upstreams: [{ id: 'a0' }] })
  }
  t.match(await world.explain({ ...mine, ref: handle, account: 'nobody' }), { parameter: 'account' })

  north.behave('fails', 'gold')
  const doing = async () => (await upstream('a0'))?.accounts[0]
  const troubled = await until(doing, (told) => told?.state === 'stale')
  t.match(troubled, { state: 'stale', rows: 2, problem: { reason: 'server_error' } })
})
