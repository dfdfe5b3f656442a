import { test } from 'tap'
import type { SignalRef } from '../../src/adcp/signal.js'
import { startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { configOf, openUpstreams, row, until, urlOf } from '../support/upstream-world.js'

type Args = Record<string, unknown>

const ref = (at: number): SignalRef => ({
  scope: 'data_provider',
  data_provider_domain: 'tridentauto.example',
  signal_id: `signal_${at}`,
})
const refs = (count: number) => Array.from({ length: count }, (_, at) => ref(at))
const known = (id: string) => row(Number(id.replace('signal_', '')))
const refused = (message: string) => ({ status: 'failed', adcp_error: { code: 'INVALID_REQUEST', message } })

/** An agent of release 3.0: brief only, exact lookup by legacy ids, unknown arguments refused. */
function agent30(seen: Args[]): TaskHandler {
  return (task, args) => {
    if (task !== 'get_signals') return { adcp: { major_versions: [3] }, supported_protocols: ['signals'] }
    const strange = Object.keys(args).find(
      (name) => !['signal_spec', 'signal_ids', 'pagination', 'account'].includes(name),
    )
    if (strange) return refused(`unknown argument ${strange}`)
    seen.push(args)
    if (typeof args.signal_spec === 'string') return { signals: [row(1_000)] }
    const ids = (args.signal_ids ?? []) as { id: string }[]
    return { signals: ids.filter(({ id }) => !id.endsWith('7')).map(({ id }) => known(id)) }
  }
}

test('a brief-only agent is enumerated through what providers published for it, in batches', async (t) => {
  const seen: Args[] = []
  const agent = await startMcpAgent(agent30(seen))
  t.teardown(agent.close)
  const asked: string[] = []
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]), {
    referencesFor: (agentUrl) => {
      asked.push(agentUrl)
      return refs(120)
    },
  })
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  t.equal(asked[0], agent.url)
  t.match(upstreams.statuses(), [{ mode: 'enumerated', state: 'fresh', listings: 108 }])
  t.same(
    seen.map(({ signal_ids: ids }) => (ids as unknown[]).length),
    [50, 50, 20],
  )
})

test('what two questions find is found once, and nothing is lost by it', async (t) => {
  let price = 2
  const agent = await startMcpAgent((task, args) => {
    if (task !== 'get_signals') return { adcp: { major_versions: [3] }, supported_protocols: ['signals'] }
    if (!args.signal_spec) return refused('a question is required')
    const option = { pricing_option_id: 'po', model: 'cpm', cpm: price, currency: 'USD' }
    price += 1
    return { signals: [row(1), row(2, { pricing_options: [option] })] }
  })
  t.teardown(agent.close)
  const seeds = ['cars', 'motors']
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, seeds }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  t.match(upstreams.statuses(), [{ listings: 2 }])
  t.same(upstreams.statuses()[0]?.dropped, { repeated: 1 }, 'only the one that came in two versions')
})

test('rows stay while the agent says that an answer lacks some', async (t) => {
  let lacks = false
  const agent = await startMcpAgent((task, args) => {
    if (task !== 'get_signals') return { adcp: { major_versions: [3] }, supported_protocols: ['signals'] }
    if (!args.signal_spec) return refused('a question is required')
    return lacks
      ? { signals: [row(1)], incomplete: [{ scope: 'signals', description: 'no time' }] }
      : { signals: [row(1), row(2)] }
  })
  t.teardown(agent.close)
  const { clock, advance } = createManualClock()
  const config = configOf([{ id: 'a', url: agent.url, seeds: ['cars'] }])
  const { upstreams } = await openUpstreams(t, config, { clock })
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  lacks = true
  await until('the trouble', () => {
    advance(10_000)
    return upstreams.statuses()[0]?.problem?.reason === 'incomplete_feed'
  })
  t.match(upstreams.statuses(), [{ state: 'stale', listings: 2 }])
})

test('seed questions find what no provider published', async (t) => {
  const agent = await startMcpAgent(agent30([]))
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, seeds: ['auto'] }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  t.equal(upstreams.slices()[0]?.rows.count, 1)
})

test('a question is asked to its last page, also of an agent that gives a cursor and does not say whether there is more', async (t) => {
  const agent = await startMcpAgent((task, args) => {
    if (task !== 'get_signals') return { adcp: { major_versions: [3] }, supported_protocols: ['signals'] }
    if (typeof args.signal_spec !== 'string') return refused('a question is required')
    const { cursor } = args.pagination as { cursor?: string }
    if (cursor === undefined) return { signals: [row(1)], pagination: { cursor: 'the second page' } }
    return cursor === 'the second page' ? { signals: [row(2)], pagination: {} } : refused('no such page')
  })
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, seeds: ['auto'] }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  t.match(upstreams.statuses(), [{ mode: 'enumerated', state: 'fresh', listings: 2 }])
})

test('an agent that nothing enumerates says so, until references arrive', async (t) => {
  const agent = await startMcpAgent(agent30([]))
  t.teardown(agent.close)
  let published = refs(0)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]), {
    referencesFor: () => published,
  })
  await upstreams.start()
  await until('the outcome', () => upstreams.statuses()[0]?.problem !== undefined)
  t.match(upstreams.statuses(), [{ state: 'absent', problem: { reason: 'not_enumerable' } }])
  published = refs(3)
  upstreams.refreshSoon(urlOf(upstreams, 'a'))
  await until('a slice', () => upstreams.slices().length === 1)
  t.match(upstreams.statuses(), [{ state: 'fresh', listings: 3 }])
})

test('half an enumeration replaces nothing', async (t) => {
  let broken = false
  const handle = agent30([])
  const agent = await startMcpAgent((task, args) => {
    const ids = args.signal_ids as { id: string }[] | undefined
    const isLast = ids?.some(({ id }) => id === 'signal_119')
    return broken && isLast
      ? { status: 'failed', adcp_error: { code: 'SERVICE_UNAVAILABLE', message: 'x' } }
      : handle(task, args)
  })
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]), {
    referencesFor: () => refs(120),
  })
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  const [before] = upstreams.slices()
  broken = true
  upstreams.refreshSoon(urlOf(upstreams, 'a'))
  await until('the failure', () => upstreams.statuses()[0]?.problem !== undefined)
  t.match(upstreams.statuses(), [{ state: 'stale', listings: 108, problem: { reason: 'agent_error' } }])
  t.equal(upstreams.slices()[0], before)
})

test('a discovery task is polled to its end', async (t) => {
  let polls = 0
  const agent = await startMcpAgent((task, args) => {
    if (task === 'get_adcp_capabilities')
      return { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['brief'] } }
    if (task === 'get_task_status') {
      polls += 1
      return polls < 2
        ? { task_id: 't1', status: 'working' }
        : { task_id: 't1', status: 'completed', result: { signals: [row(1), row(2)] } }
    }
    if (args.discovery_mode === 'wholesale') return refused('no wholesale here')
    return { status: 'submitted', task_id: 't1' }
  })
  t.teardown(agent.close)
  const time = createManualClock()
  const config = configOf([{ id: 'a', url: agent.url, seeds: ['auto'] }])
  const { upstreams } = await openUpstreams(t, config, { clock: time.clock })
  await upstreams.start()
  await until('a slice', () => {
    time.advance(500)
    return upstreams.slices().length === 1
  })
  t.equal(upstreams.slices()[0]?.rows.count, 2)
  t.equal(polls, 2)
})
