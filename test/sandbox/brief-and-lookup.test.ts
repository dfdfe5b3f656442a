import { test } from 'tap'
import { ask, fileAt, open, page, rowsOf } from './support/world.js'

test('the agent of 3.0 wants a question, and says nothing of modes', async (t) => {
  const sandbox = await open(t)
  const capabilities = await ask(sandbox, 'oldmill', 'get_adcp_capabilities')
  t.match(capabilities, { adcp: { supported_versions: ['3.0'] } })
  t.notOk('discovery_modes' in (capabilities.signals as object))
  const refused = await page(sandbox, 'oldmill')
  t.match(refused, { status: 'failed', adcp_error: { code: 'INVALID_REQUEST', field: 'signal_spec' } })
})

test('every signal that a provider grants to the agent of 3.0 is found by its legacy id', async (t) => {
  const sandbox = await open(t)
  const { authorized_agents } = await fileAt(sandbox, 'https://motorledger.example/.well-known/adagents.json')
  const entries = authorized_agents as { url: string; signal_ids: string[] }[]
  const ids = entries.find(({ url }) => url === sandbox.agents.oldmill.url)?.signal_ids ?? []
  t.ok(ids.length > 0)
  const signal_ids = ids.map((id) => ({ source: 'catalog', data_provider_domain: 'motorledger.example', id }))
  const found = rowsOf([await ask(sandbox, 'oldmill', 'get_signals', { signal_ids })])
  t.same(
    found.map(({ signal_id }) => signal_id),
    signal_ids,
  )
  t.ok(found.every((row) => !('signal_ref' in row)))
})

test('an exact lookup leaves out what is not found and does not answer for another scope', async (t) => {
  const sandbox = await open(t)
  const [row] = rowsOf([await page(sandbox, 'northwind', { max_results: 1 })])
  const ref = row?.signal_ref
  t.equal(ref?.scope, 'data_provider')
  const wrong = [
    { scope: 'data_provider', data_provider_domain: 'elsewhere.example', signal_id: ref?.signal_id },
    { scope: 'signal_source', signal_source_url: sandbox.agents.northwind.url, signal_id: ref?.signal_id },
    'nonsense',
  ]
  const found = rowsOf([await ask(sandbox, 'northwind', 'get_signals', { signal_refs: [...wrong, ref] })])
  t.same(found, [row])
})

test('a brief is ranked by its words; a refinement starts with what it references', async (t) => {
  const sandbox = await open(t)
  const brief = { signal_spec: 'households buying organic produce in Germany' }
  const found = rowsOf([await ask(sandbox, 'meridian', 'get_signals', brief)])
  t.match(found[0]?.name, /Organic Produce/)
  const last = found.at(-1)
  const refined = rowsOf([
    await ask(sandbox, 'meridian', 'get_signals', { ...brief, signal_refs: [last?.signal_ref] }),
  ])
  t.same(refined[0], last)
  t.same(new Set(refined.map(({ name }) => name)), new Set(found.map(({ name }) => name)))
  const none = await ask(sandbox, 'meridian', 'get_signals', { signal_spec: 'xylophone' })
  t.match(none, { status: 'completed', signals: [] })
})

test('a slow brief is a task: submitted, then polled to the same result', async (t) => {
  let time = Date.parse('2026-11-20T12:00:00Z')
  const sandbox = await open(t, { now: () => time })
  const brief = { signal_spec: 'running shoes' }
  const direct = await ask(sandbox, 'meridian', 'get_signals', brief)
  sandbox.agents.meridian.briefTakes(30_000)
  const { status, task_id, signals } = await ask(sandbox, 'meridian', 'get_signals', brief)
  t.equal(status, 'submitted')
  t.equal(signals, undefined)
  const poll = () => ask(sandbox, 'meridian', 'get_task_status', { task_id, include_result: true })
  t.match(await poll(), { status: 'working', task_type: 'get_signals' })
  time += 30_000
  const finished = await poll()
  t.equal(finished.status, 'completed')
  t.same((finished.result as { signals: unknown }).signals, direct.signals)
  const foreign = await ask(sandbox, 'meridian', 'get_task_status', { task_id: 'task_unknown' })
  t.equal(foreign.adcp_error?.code, 'REFERENCE_NOT_FOUND')
})

test('a webhook that the agent would never call is refused', async (t) => {
  const sandbox = await open(t)
  const push_notification_config = { url: 'https://buyer.example/hook' }
  const answer = await ask(sandbox, 'northwind', 'get_signals', {
    signal_spec: 'cars',
    push_notification_config,
  })
  t.match(answer, { adcp_error: { code: 'INVALID_REQUEST', field: 'push_notification_config' } })
})
