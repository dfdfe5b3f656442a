import tap, { test } from 'tap'
import { anonymous, buyer, other, readAnswer, startWorld } from './support/world.js'

const { ask, discovery } = await startWorld(tap, 300)
const budget = { interval: 60, unit: 'seconds' } as const // however busy the machine

test('one question to every agent, one ranked answer', async (t) => {
  const started = Date.now()
  const answer = readAnswer(await ask({ signal_spec: 'electric vehicle intenders', time_budget: budget }))
  t.comment(`took ${Date.now() - started} ms: ${answer.message}`)
  t.comment(JSON.stringify(answer.upstreams))
  t.match(answer.signals[0]?.name, /Electric Vehicle In-Market Intenders/)
  t.match(answer.message, /^Best match: "Electric Vehicle In-Market Intenders/)
  t.equal(
    new Set(answer.signals.map((row) => row.signal_agent_segment_id)).size,
    answer.signals.length,
    'each once',
  )
  const answered = answer.upstreams.filter(({ outcome }) => outcome === 'answered')
  t.ok(answered.length >= 4, 'mirrored agents and the brief-only one were asked')
  for (const row of answer.signals) t.ok(row.pricing_options, `${row.name} has prices`)

  // Oldmill is not in this feed: what it found stands in the answer, and can be activated.
  const oldmill = answer.upstreams.find(({ id }) => /oldmill|old-mill/.test(id))
  t.ok((oldmill?.found ?? 0) > 0)
  for (const row of answer.signals) {
    const resolved = await discovery.resolve(row.signal_agent_segment_id, buyer)
    if (resolved) t.ok(resolved.offers.length > 0)
  }

  const hidden = readAnswer(
    await ask({ signal_spec: 'electric vehicle intenders', time_budget: budget }, anonymous),
  )
  t.match(hidden.signals[0]?.name, /Electric Vehicle/)
  t.notOk(
    hidden.signals.some((row) => row.pricing_options),
    'no prices without credentials',
  )
  t.match(hidden.message, /prices need credentials/)
})

test('pages follow each other without overlap, and cursors belong to their caller and question', async (t) => {
  const question = { signal_spec: 'show all available signals', time_budget: budget }
  const handles: string[] = []
  let cursor: string | undefined
  let first: string | undefined
  do {
    const pagination = { max_results: 50, ...(cursor && { cursor }) }
    const page = readAnswer(await ask({ ...question, pagination }))
    handles.push(...page.signals.map((row) => row.signal_agent_segment_id))
    t.equal(page.pagination?.has_more, page.pagination?.cursor !== undefined)
    cursor = page.pagination?.cursor
    first ??= cursor
  } while (cursor)
  t.ok(handles.length > 200, `a broad question has a broad answer: ${handles.length}`)
  t.equal(new Set(handles).size, handles.length)

  const pagination = { cursor: first as string }
  for (const [input, reader] of [
    [{ ...question, pagination }, other],
    [{ signal_spec: 'another question', pagination }, buyer],
    [{ ...question, pagination: { cursor: `${first}x` } }, buyer],
    [{ ...question, pagination: { cursor: 'bm9uc2Vuc2U' } }, buyer],
  ] as const) {
    const answer = await ask(input, reader)
    t.match(answer, { kind: 'refused', error: { code: 'INVALID_REQUEST', field: 'pagination.cursor' } })
  }
})

test('filters hold for what upstreams found, too', async (t) => {
  const filters = { data_providers: ['motorledger.example'] }
  const answer = readAnswer(await ask({ signal_spec: 'cars and coffee', filters, time_budget: budget }))
  t.ok(answer.signals.length > 0)
  for (const row of answer.signals) t.equal(row.signal_ref.data_provider_domain, 'motorledger.example')
  const countries = readAnswer(await ask({ signal_spec: 'cars', countries: ['JP'], time_budget: budget }))
  t.ok(countries.signals.length > 0)
  for (const row of countries.signals) t.match(row.name, /Japan/)
})

test('nothing that matches is an empty answer, not an error', async (t) => {
  const answer = readAnswer(await ask({ signal_spec: 'quantum chromodynamics', time_budget: budget }))
  t.same(answer.signals, [])
  t.match(answer.message, /^No signal matches/)
})

test('an upstream that hangs costs the answer nothing but its own signals', async (t) => {
  // Where nobody has asked before, no agent is known to take longer than there is time.
  const { ask, sandbox } = await startWorld(t, 100)
  sandbox.delay('signals.meridian.example', 60_000)
  const started = Date.now()
  const answer = readAnswer(
    await ask({ signal_spec: 'mortgage seekers', time_budget: { interval: 1, unit: 'seconds' } }),
  )
  const took = Date.now() - started
  t.ok(took < 40_000, `answered after ${took} ms, and not after a minute`)
  t.ok(answer.signals.length > 0)
  t.match(
    answer.incomplete?.find(({ description }) => description.includes('meridian')),
    { scope: 'signals', estimated_wait: { unit: 'seconds' } },
  )
  t.match(
    answer.upstreams.find(({ id }) => id.includes('meridian')),
    { outcome: 'pending', reason: 'deadline' },
  )
})
