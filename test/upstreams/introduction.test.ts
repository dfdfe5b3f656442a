import { test } from 'tap'
import { listingsOf } from '../../src/upstreams/rows/read-rows.js'
import { startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { configOf, openUpstreams, row, until, urlOf } from '../support/upstream-world.js'

type Args = Record<string, unknown>

const broke = {
  status: 'failed',
  adcp_error: { code: 'SERVICE_UNAVAILABLE', message: "Cannot read properties of undefined (reading 'id')" },
}
const capabilities = (discovery_modes: string[]) => ({
  adcp: { supported_versions: ['3.1'] },
  signals: { discovery_modes },
})

/** Answers get_signals by `answer`; everything else it was asked is in `seen`. */
function agent(modes: string[], seen: Args[], answer: (args: Args) => Args): TaskHandler {
  return (task, args) => {
    if (task === 'get_adcp_capabilities') return capabilities(modes)
    seen.push({ task, ...args })
    return task === 'get_signals' ? answer(args) : broke
  }
}

const own = { brand: { domain: 'tributary.example' }, operator: 'tributary.example' }
const soon = () => ({ deadline: Date.now() + 60_000 })

test('an agent that answers nobody without an account is read with our own', async (t) => {
  for (const modes of [['wholesale'], ['brief']]) {
    const seen: Args[] = []
    const { url, close } = await startMcpAgent(
      agent(modes, seen, ({ account, discovery_mode: mode }) => {
        const isRefused = !account || (mode === 'wholesale' && !modes.includes(mode))
        return isRefused ? broke : { signals: [row(1)] }
      }),
    )
    t.teardown(close)
    const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url, seeds: ['auto'] }]))
    await upstreams.start()
    await until('a slice', () => upstreams.slices().length === 1)
    t.match(upstreams.statuses(), [{ state: 'fresh', listings: 1, problem: undefined }])

    seen.length = 0
    const question = { signal_spec: 'autos', discovery_mode: 'brief' }
    t.match(await upstreams.call(urlOf(upstreams, 'a'), 'get_signals', question, soon()), { kind: 'answer' })
    const theirs = { account_id: 'nw_77' }
    await upstreams.call(urlOf(upstreams, 'a'), 'get_signals', { ...question, account: theirs }, soon())
    await upstreams.call(urlOf(upstreams, 'a'), 'activate_signal', { signal_agent_segment_id: 's' }, soon())
    t.same(
      seen.map(({ account }) => account),
      [own, theirs, undefined],
      'questions carry it, a buyer keeps its own, and nothing is bought with it',
    )
  }
})

test('what an agent prices for our account alone is not read', async (t) => {
  const handler = agent(['wholesale'], [], ({ account }) =>
    account ? { signals: [row(1)], cache_scope: 'account' } : broke,
  )
  const { url, close } = await startMcpAgent(handler)
  t.teardown(close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url }]))
  await upstreams.start()
  await until('the outcome', () => upstreams.statuses()[0]?.problem !== undefined)
  t.match(upstreams.statuses(), [{ state: 'absent', problem: { reason: 'account_needed' } }])
})

test('what questions find with our own account is told without prices that are for it alone', async (t) => {
  const handler = agent(['wholesale'], [], ({ account, signal_spec: question }) => {
    if (!account) return broke
    return { signals: [row(1)], cache_scope: question ? 'account' : 'public' }
  })
  const { url, close } = await startMcpAgent(handler)
  t.teardown(close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  async function priced(more: Args): Promise<boolean[]> {
    const args = { signal_spec: 'autos', discovery_mode: 'brief', ...more }
    const outcome = await upstreams.call(urlOf(upstreams, 'a'), 'get_signals', args, soon())
    return outcome.kind === 'answer' ? listingsOf(outcome.rows).map((one) => 'pricing_options' in one) : []
  }
  t.same(await priced({}), [false])
  t.same(await priced({ account: { account_id: 'nw_77' } }), [true], 'a buyer is told his own')
})

test('a bad moment does not make us introduce ourselves', async (t) => {
  const seen: Args[] = []
  const handler = agent(['wholesale'], seen, ({ account }) => {
    if (seen.length === 1) return broke
    return { signals: [row(account ? 2 : 1)] }
  })
  const { url, close } = await startMcpAgent(handler)
  t.teardown(close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  t.same(
    seen.map(({ account }) => account),
    [undefined, own, undefined],
  )
  await upstreams.call(urlOf(upstreams, 'a'), 'get_signals', { signal_spec: 'autos' }, soon())
  t.equal(seen.at(-1)?.account, undefined)
})
