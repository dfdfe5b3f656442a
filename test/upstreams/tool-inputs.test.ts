import { test } from 'tap'
import {
  argumentsFor,
  briefShapes,
  type Dialect,
  lookupShapes,
  unsaid,
} from '../../src/upstreams/agent/dialect.js'
import { readToolList, toolInputs } from '../../src/upstreams/agent/tool-list.js'
import { rowsRead } from '../../src/upstreams/mirror/scope-status.js'
import { startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { configOf, openUpstreams, row, until, urlOf } from '../support/upstream-world.js'

type Schema = { properties?: Record<string, object>; additionalProperties?: boolean; required?: string[] }
type Tools = Record<string, Schema>

const text = { type: 'string' }
const object = { type: 'object' }
const list = { type: 'array' }

/** The tool inputs that are known, each as a tool list of its kind says it. */
const INPUTS = {
  current: {
    get_adcp_capabilities: {},
    get_signals: { properties: {}, additionalProperties: true },
    activate_signal: {},
  },
  '3.0': {
    get_adcp_capabilities: { properties: {}, additionalProperties: false },
    get_signals: {
      properties: {
        signal_spec: text,
        signal_ids: list,
        pagination: object,
        max_results: { type: 'integer' },
      },
      additionalProperties: false,
    },
    activate_signal: {
      properties: { signal_agent_segment_id: text, destinations: list, idempotency_key: text },
      additionalProperties: false,
    },
  },
  '2.6': {
    get_signals: {
      properties: {
        signal_spec: text,
        deliver_to: object,
        filters: object,
        max_results: { type: 'integer' },
      },
      additionalProperties: false,
    },
    activate_signal: {
      properties: { signal_agent_segment_id: text, deployments: list },
      additionalProperties: false,
    },
  },
  'plural id and platform': {
    get_signals: {
      properties: { signal_spec: text, deliver_to: object, max_results: { type: 'integer', maximum: 1_000 } },
      additionalProperties: false,
    },
    activate_signal: {
      properties: { signals_agent_segment_id: text, platform: text, account: text },
      required: ['signals_agent_segment_id', 'platform'],
      additionalProperties: false,
    },
  },
} satisfies Record<string, Tools>

function toolList(tools: Tools) {
  return Object.entries(tools).map(([name, schema]) => ({
    name,
    inputSchema: { type: 'object' as const, ...schema },
  }))
}

function dialectWith(release: Dialect['release'], tools: Tools): Dialect {
  return { release, declaresWholesale: false, tools: toolInputs(readToolList(toolList(tools)) ?? []) }
}

const destinations = [{ type: 'platform', platform: 'the-trade-desk', account: 'seat_7' }]
const activation = {
  signal_agent_segment_id: 's1',
  destinations,
  idempotency_key: 'key-0123456789abcdef',
  pricing_option_id: 'po',
  account: { account_id: 'acc' },
}

test('an activation is said in the words of the tool', async (t) => {
  const said = (release: Dialect['release'], tools: Tools) =>
    argumentsFor(dialectWith(release, tools), 'activate_signal', activation)
  t.same(said('current', INPUTS.current), activation)
  t.same(said('3.0', INPUTS['3.0']), {
    signal_agent_segment_id: 's1',
    destinations,
    idempotency_key: 'key-0123456789abcdef',
  })
  t.same(
    said('current', INPUTS['3.0']),
    said('3.0', INPUTS['3.0']),
    'a closed schema decides, whatever release the agent claims',
  )
  t.same(said('older', INPUTS['2.6']), { signal_agent_segment_id: 's1', deployments: destinations })
  t.same(said('older', INPUTS['plural id and platform']), {
    signals_agent_segment_id: 's1',
    platform: 'the-trade-desk',
    account: 'seat_7',
  })
})

test('what cannot be said is not asked', async (t) => {
  const plural = dialectWith('older', INPUTS['plural id and platform'])
  const two = [...destinations, { type: 'platform', platform: 'dv360' }]
  const agentUrl = [{ type: 'agent', agent_url: 'https://sa.example' }]
  t.equal(unsaid(plural, 'activate_signal', { ...activation, account: undefined }), undefined)
  const onlyOne = { field: 'destinations', message: /one platform at a time/ }
  t.match(unsaid(plural, 'activate_signal', { ...activation, destinations: two }), onlyOne)
  t.match(unsaid(plural, 'activate_signal', { ...activation, destinations: agentUrl }), onlyOne)
  t.match(unsaid(plural, 'activate_signal', activation), { field: 'account' })
  for (const tools of [INPUTS['2.6'], INPUTS['3.0'], INPUTS['plural id and platform']]) {
    const dialect = dialectWith('older', tools)
    t.match(unsaid(dialect, 'activate_signal', { ...activation, action: 'deactivate' }), {
      field: 'action',
      message: /switch a signal off/,
    })
  }
})

test('a question has the shapes that the tool can tell apart, and nothing that it does not name', async (t) => {
  const ref = { scope: 'data_provider' as const, data_provider_domain: 'a.example', signal_id: 'x' }
  for (const [name, tools] of Object.entries(INPUTS) as [string, Tools][]) {
    const release = name === 'current' ? 'current' : name === '3.0' ? '3.0' : 'older'
    const dialect = dialectWith(release, tools)
    const shapes = [...briefShapes(dialect, 'cars'), ...lookupShapes(dialect, [ref])]
    const sent = shapes.map((shape) =>
      argumentsFor(dialect, 'get_signals', { ...shape, pagination: { max_results: 5 } }),
    )
    t.equal(new Set(sent.map((args) => JSON.stringify(args))).size, sent.length, `${name}: no shape twice`)
    const schema = tools.get_signals as Schema
    if (schema.additionalProperties !== false) continue
    for (const args of sent)
      for (const argument of Object.keys(args)) t.ok(schema.properties?.[argument], `${name}: ${argument}`)
  }
})

test('odd tool lists say nothing', async (t) => {
  t.equal(readToolList(undefined), undefined)
  t.equal(readToolList({}), undefined)
  const inputsOf = (list: unknown) => toolInputs(readToolList(list) ?? [])
  const odd = [null, 7, { name: 'b', inputSchema: 'x' }, { name: 7, inputSchema: {} }]
  t.equal(inputsOf(odd).size, 0)
  const huge = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`a${i}`, {}]))
  t.equal(inputsOf([{ name: 'x', inputSchema: { properties: huge } }]).size, 0)
})

type Call = { task: string; args: Record<string, unknown> }

/** An agent that holds what it is sent against its own closed schemas, as real ones do. */
async function startStrict(
  t: { teardown(task: () => unknown): void },
  tools: Tools,
  answer: (call: Call) => Record<string, unknown>,
) {
  const calls: Call[] = []
  const refused: string[] = []
  const flavour = { sessions: false, json: true }
  const handler: TaskHandler = (task, args) => {
    const schema = tools[task]
    if (!schema) return undefined
    calls.push({ task, args })
    const isStrange = (name: string) => schema.additionalProperties === false && !schema.properties?.[name]
    const strange = Object.keys(args).find(isStrange) ?? schema.required?.find((name) => !(name in args))
    if (!strange) return answer({ task, args })
    refused.push(`${task}: ${strange}`)
    return undefined
  }
  const agent = await startMcpAgent(handler, flavour, toolList(tools))
  t.teardown(agent.close)
  return { url: agent.url, calls, refused }
}

const TOTAL = 575
const rows = Array.from({ length: TOTAL }, (_, at) => row(at))

async function readBy(t: Parameters<typeof openUpstreams>[0], url: string) {
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url, seeds: ['everything'] }]))
  await upstreams.start()
  await until(
    'an outcome',
    () => upstreams.slices().length === 1 || upstreams.statuses()[0]?.problem !== undefined,
  )
  return upstreams
}

test('an old agent of 575 signals whose pages were dropped is read whole, and is sent nothing that it refuses', async (t) => {
  const { url, calls, refused } = await startStrict(t, INPUTS['plural id and platform'], ({ args }) => ({
    signals: rows.slice(0, Number(args.max_results ?? 50)),
  }))
  const upstreams = await readBy(t, url)
  t.equal(upstreams.slices()[0]?.rows.count, TOTAL)
  t.equal(upstreams.statuses().map(rowsRead)[0], 'at least 575')
  t.same(upstreams.slices()[0]?.dropped, {})
  t.same(refused, [])
  t.same(
    calls.map(({ args }) => args.max_results),
    [100, 1_000],
  )

  const { account: _, ...forNobody } = activation
  const outcome = await upstreams.call(urlOf(upstreams, 'a'), 'activate_signal', forNobody, {
    deadline: Date.now() + 60_000,
  })
  t.equal(outcome.kind, 'answer')
  t.same(calls.at(-1)?.args, {
    signals_agent_segment_id: 's1',
    platform: 'the-trade-desk',
    account: 'seat_7',
  })
  t.same(refused, [])
  const off = { ...activation, action: 'deactivate' }
  const before = calls.length
  t.match(
    await upstreams.call(urlOf(upstreams, 'a'), 'activate_signal', off, { deadline: Date.now() + 60_000 }),
    {
      error: { code: 'UNSUPPORTED_FEATURE' },
    },
  )
  t.equal(calls.length, before, 'an agent that knows no action is never sent a deactivation')
})

test('an agent that gives no more than 50 rows at once is said to be limited', async (t) => {
  const { url } = await startStrict(t, INPUTS['2.6'], ({ args }) => ({
    signals: rows.slice(0, Math.min(50, Number(args.max_results))),
    pagination: { has_more: true, total_count: TOTAL },
  }))
  const upstreams = await readBy(t, url)
  t.equal(upstreams.statuses().map(rowsRead)[0], 'limited at 50')
})

test('an agent that refuses a larger number keeps the one that it took', async (t) => {
  const { url } = await startStrict(t, INPUTS['2.6'], ({ args }) =>
    Number(args.max_results) > 100
      ? { status: 'failed', adcp_error: { code: 'INVALID_REQUEST', message: 'at most 100' } }
      : { signals: rows.slice(0, Number(args.max_results)) },
  )
  const upstreams = await readBy(t, url)
  t.equal(upstreams.statuses().map(rowsRead)[0], 'limited at 100')
})
