import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { createSliceStore } from '../../src/upstreams/mirror/slice-store.js'
import { createLearntStore } from '../../src/upstreams/walk/learnt.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startA2aAgent } from '../support/upstream-a2a.js'
import {
  readJson,
  startHttp,
  startMcpAgent,
  type TaskHandler,
  type ToolList,
} from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { CAPABILITIES, wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, until, urlOf } from '../support/upstream-world.js'

const DAY_MS = 24 * 3_600_000

type Sent = [task: string, args: Record<string, unknown>]

const closed = (...names: string[]) => ({
  type: 'object' as const,
  properties: Object.fromEntries(names.map((name) => [name, {}])),
  additionalProperties: false,
})

function recorded(handle: TaskHandler): { handle: TaskHandler; sent: Sent[]; tasks(): string[] } {
  const sent: Sent[] = []
  return {
    sent,
    tasks: () => sent.map(([task]) => task),
    handle: (task, args) => {
      sent.push([task, args])
      return handle(task, args)
    },
  }
}

async function openedAt(t: Test, url: string, more: { folder?: string } = {}) {
  const opened = await openUpstreams(t, configOf([{ id: 'a', url }]), more)
  await opened.upstreams.start()
  await until('an answer', () => opened.upstreams.statuses()[0]?.state !== 'starting')
  await until('the end of the refresh', () => opened.upstreams.statuses()[0]?.nextAttemptAt !== undefined)
  const call = (task: string, args: Record<string, unknown>) =>
    opened.upstreams.call(urlOf(opened.upstreams, 'a'), task, args, { deadline: Date.now() + 60_000 })
  return { ...opened, call }
}

const TOOLS: ToolList = [
  { name: 'get_adcp_capabilities', inputSchema: closed() },
  { name: 'get_signals', inputSchema: closed('signal_spec', 'discovery_mode', 'pagination') },
  { name: 'activate_signal', inputSchema: closed('signal_agent_segment_id', 'destinations', 'action') },
  { name: 'tasks_get', inputSchema: closed('task_id') },
  { name: 'report_usage', inputSchema: closed('usage', 'idempotency_key') },
]

test('what was learnt of an agent is used for every task, and outlives the process', async (t) => {
  const { handle, sent, tasks } = recorded((task, args) => {
    if (task === 'tasks_get') return { status: 'completed', task_id: args.task_id }
    if (task === 'activate_signal' || task === 'report_usage') return { status: 'completed' }
    return feed.handle(task, args)
  })
  const feed = wholesaleAgent([row(1)], 'v1')
  const agent = await startMcpAgent(handle, { sessions: false, json: true }, TOOLS)
  t.teardown(agent.close)
  const folder = await temporaryFolder(t)
  const first = await openedAt(t, agent.url, { folder })
  await first.close()
  sent.length = 0

  const second = await openedAt(t, agent.url, { folder })
  const at = second.upstreams.statuses()[0]?.confirmedAt
  t.ok(at, 'it was polled')
  sent.length = 0
  const destinations = [{ type: 'platform', platform: 'dv360' }]
  const activation = { signal_agent_segment_id: 's', destinations, idempotency_key: 'k'.repeat(16) }
  t.match(await second.call('activate_signal', { ...activation, action: 'deactivate' }), { kind: 'answer' })
  t.match(await second.call('get_task_status', { task_id: 't', include_result: true }), { kind: 'answer' })
  const usage = { usage: [], idempotency_key: 'k'.repeat(16), reporting_period: {} }
  t.match(await second.call('report_usage', usage), { kind: 'answer' })
  t.same(sent, [
    ['activate_signal', { signal_agent_segment_id: 's', destinations, action: 'deactivate' }],
    ['tasks_get', { task_id: 't' }],
    ['report_usage', { usage: [], idempotency_key: 'k'.repeat(16) }],
  ])
  t.notOk(tasks().includes('get_adcp_capabilities'), 'nothing was asked again')
})

test('a list of tools whose connection breaks is asked for again, as a reading is', async (t) => {
  const { handle, sent } = recorded((task, args) =>
    task === 'activate_signal' ? { status: 'completed', deployments: [] } : feed.handle(task, args),
  )
  const feed = wholesaleAgent([row(1)], 'v1')
  const agent = await startMcpAgent(handle, { sessions: false, json: true }, TOOLS)
  t.teardown(agent.close)
  let lists = 0
  const front = await startHttp(async (request, response) => {
    const body = (await readJson(request)) as { method?: string } | undefined
    if (body?.method === 'tools/list' && lists++ === 0) return void request.socket.destroy()
    const { accept = '' } = request.headers
    const headers = { accept, 'content-type': 'application/json' }
    const reply = await fetch(agent.url, {
      method: request.method ?? '',
      headers,
      body: JSON.stringify(body),
    })
    response.writeHead(reply.status, { 'content-type': reply.headers.get('content-type') ?? '' })
    response.end(await reply.text())
  })
  t.teardown(front.close)
  const { call } = await openedAt(t, front.url)
  t.equal(lists, 2)
  sent.length = 0
  const activation = { signal_agent_segment_id: 's', destinations: [{ type: 'platform', platform: 'dv360' }] }
  t.match(await call('activate_signal', { ...activation, idempotency_key: 'k'.repeat(16) }), {
    kind: 'answer',
  })
  t.same(sent, [['activate_signal', activation]], 'it is sent what its tool takes')
})

test('what was learnt with another credential is not believed', async (t) => {
  const { handle, tasks, sent } = recorded(wholesaleAgent([row(1)], 'v1').handle)
  const agent = await startMcpAgent(handle, { sessions: false, json: true }, TOOLS)
  t.teardown(agent.close)
  const folder = await temporaryFolder(t)
  const reading = async (token: string) => {
    const config = configOf([{ id: 'a', url: agent.url, auth: { type: 'bearer', token } }])
    const { upstreams, close } = await openUpstreams(t, config, { folder })
    await upstreams.start()
    await until('a refresh', () => upstreams.statuses()[0]?.nextAttemptAt !== undefined)
    await close()
    const asked = tasks().filter((task) => task === 'get_adcp_capabilities').length
    sent.length = 0
    return asked
  }
  t.equal(await reading('one-token'), 1)
  t.equal(await reading('one-token'), 0)
  t.equal(await reading('another-token'), 1)
})

test("the capabilities may go by the specification's name", async (t) => {
  const feed = wholesaleAgent([row(1)], 'v1')
  const agent = await startMcpAgent(
    (task, args) => {
      if (task === 'get_adcp_capabilities') return undefined
      return task === 'get_protocol_capabilities' ? CAPABILITIES : feed.handle(task, args)
    },
    { sessions: false, json: true },
    [{ name: 'get_protocol_capabilities', inputSchema: closed() }, ...TOOLS.slice(1)],
  )
  t.teardown(agent.close)
  const { upstreams } = await openedAt(t, agent.url)
  t.match(upstreams.statuses(), [{ state: 'fresh', mode: 'wholesale', listings: 1 }])
  t.match(upstreams.dialectOf(urlOf(upstreams, 'a')), { release: 'current', declaresWholesale: true })
})

test('an A2A agent is told to deactivate only where its card speaks of it', async (t) => {
  const skills = [
    { id: 'get_signals', description: 'AdCP tool: get_signals.' },
    { id: 'activate_signal', description: 'AdCP tool: activate_signal.' },
  ]
  const telling = [
    skills[0] as (typeof skills)[0],
    { id: 'activate_signal', description: 'Activates, or with action "deactivate" ends that.' },
  ]
  for (const [card, isTold] of [
    [[], false],
    [skills, false],
    [telling, true],
  ] as const) {
    const feed = wholesaleAgent([row(1)], 'v1')
    const { handle, tasks } = recorded((task, args) =>
      task === 'activate_signal' ? { status: 'completed', deployments: [] } : feed.handle(task, args),
    )
    const agent = await startA2aAgent(handle, ['1.0'], card)
    t.teardown(agent.close)
    const { call } = await openedAt(t, agent.url)
    const request = {
      signal_agent_segment_id: 's',
      destinations: [{ type: 'platform', platform: 'dv360' }],
      idempotency_key: 'k'.repeat(16),
    }
    t.match(await call('activate_signal', request), { kind: 'answer' })
    const off = await call('activate_signal', { ...request, action: 'deactivate' })
    if (isTold) t.match(off, { kind: 'answer' })
    else t.match(off, { kind: 'error', error: { unsent: true, field: 'action' } })
    t.equal(tasks().filter((task) => task === 'activate_signal').length, isTold ? 2 : 1)
  }
})

test('what was kept and cannot be read is as good as none, and is told', async (t) => {
  const damaged = Buffer.from('{"format":1,"tools":[null],"dialect":{}}')
  const ways = [() => Promise.reject(new Error('storage is down')), async () => [damaged]]
  for (const read of ways) {
    const trouble: string[] = []
    const onTrouble = (message: string) => void trouble.push(message)
    const blobs = { read, write: async () => {}, remove: async () => {}, list: async () => [] }
    t.equal(await createLearntStore({ blobs, onTrouble }).load('https://a.example/mcp'), undefined)
    t.match(trouble, [/^what was learnt of https:\/\/a\.example\/mcp could not be read: /])
  }
  const trouble: string[] = []
  const blobs = {
    read: ways[0] as never,
    write: async () => {},
    remove: async () => {},
    list: async () => [],
  }
  const { clock } = createManualClock()
  const slices = createSliceStore({ blobs, clock, onTrouble: (message) => void trouble.push(message) })
  const key = { agentUrl: 'https://a.example/mcp', scope: 'public' }
  t.equal(await slices.load(key, { credential: 'none' }), undefined)
  t.match(trouble, [/^slice\/public\/.* could not be read: storage is down$/])
})

test('however much an agent says of itself, little of it is kept', async (t) => {
  const long = (count: number, of: number) =>
    Array.from({ length: count }, (_, at) => `${at}`.padEnd(of, 'x'))
  const signing = { supported: true, supported_for: long(100, 2_500) }
  const { handle } = wholesaleAgent([row(1)], 'v1')
  const talkative: TaskHandler = (task, args) =>
    task === 'get_adcp_capabilities'
      ? {
          ...CAPABILITIES,
          signals: { ...CAPABILITIES.signals, data_provider_domains: long(100, 2_000) },
          request_signing: signing,
        }
      : handle(task, args)
  const tools: ToolList = [
    ...TOOLS,
    ...long(60, 90).map((name) => ({ name, inputSchema: closed(...long(120, 99)) })),
  ]
  const agent = await startMcpAgent(talkative, { sessions: false, json: true }, tools)
  t.teardown(agent.close)
  const folder = await temporaryFolder(t)
  const { upstreams, close } = await openedAt(t, agent.url, { folder })
  t.match(upstreams.statuses(), [{ state: 'fresh', listings: 1 }])
  await close()
  const files = (await readdir(folder)).filter((name) => name.startsWith('dialect'))
  const [size = 0] = await Promise.all(files.map(async (name) => (await stat(join(folder, name))).size))
  t.ok(size > 1_000 && size < 200_000, `${size} bytes`)
})

test('an agent that showed the tools of an older release once, among others of its kind, keeps its rows', async (t) => {
  const rows = Array.from({ length: 50 }, (_, at) => row(at))
  const feed = wholesaleAgent(rows, 'v1')
  const { handle, tasks, sent } = recorded((task, args) =>
    args.discovery_mode || task !== 'get_signals'
      ? feed.handle(task, args)
      : { status: 'completed', signals: [] },
  )
  const tools = [...TOOLS]
  const agent = await startMcpAgent(handle, { sessions: false, json: true }, tools)
  t.teardown(agent.close)
  const time = createManualClock()
  const pace = { refreshMs: 300_000, dropAfterMs: 2 * DAY_MS }
  const { upstreams } = await openUpstreams(
    t,
    configOf([{ id: 'a', url: agent.url, seeds: ['cars'] }], pace),
    {
      clock: time.clock,
    },
  )
  const slice = () => upstreams.slices()[0]
  const status = () => upstreams.statuses()[0]
  await upstreams.start()
  await until('a slice', () => slice()?.rows.count === 50)
  await until('the end of the refresh', () => status()?.nextAttemptAt !== undefined)
  tools[1] = { name: 'get_signals', inputSchema: closed('signal_spec', 'pagination') }
  time.advance(DAY_MS)
  await until('a reading', () => (status()?.nextAttemptAt ?? 0) > time.clock.now())
  time.advance(2 * pace.refreshMs) // what it takes is learnt anew
  await until('the doubt', () => status()?.problem?.reason === 'shrunken_feed')
  tools[1] = TOOLS[1] as ToolList[number]
  sent.length = 0
  time.advance(30_000)
  await until('the second look', () => (status()?.nextAttemptAt ?? 0) > time.clock.now())
  t.ok(tasks().includes('get_adcp_capabilities'), 'it is asked again what it takes')
  t.equal(slice()?.rows.count, 50)
  t.match(status(), { state: 'fresh' })
})

test('an agent that showed the tools of an older release at first is read once it shows its own', async (t) => {
  const feed = wholesaleAgent([row(0)], 'v1')
  const tools = [...TOOLS]
  tools[1] = { name: 'get_signals', inputSchema: closed('signal_spec', 'pagination') }
  const handle: TaskHandler = (task, args) =>
    args.discovery_mode || task !== 'get_signals'
      ? feed.handle(task, args)
      : { status: 'completed', signals: [] }
  const agent = await startMcpAgent(handle, { sessions: false, json: true }, tools)
  t.teardown(agent.close)
  const time = createManualClock()
  const { upstreams } = await openUpstreams(
    t,
    configOf([{ id: 'a', url: agent.url, seeds: ['cars'] }], { refreshMs: 300_000 }),
    { clock: time.clock },
  )
  const status = () => upstreams.statuses()[0]
  await upstreams.start()
  await until('its answer', () => status()?.problem?.reason === 'not_enumerable')
  await until('the end of the refresh', () => status()?.nextAttemptAt !== undefined)
  tools[1] = TOOLS[1] as ToolList[number]
  time.advance(60_000)
  await until('another answer', () => (status()?.nextAttemptAt ?? 0) > time.clock.now())
  t.equal(upstreams.slices()[0]?.rows.count, 1)
})
