/**
 * Random requests of every task, in every release, over both transports: each answer is what its release's schemas, the
 * tool's own outputSchema and the transport say, and each refusal helps. `SOAK=100` asks for a hundred times as many.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { Ajv } from 'ajv'
import fc from 'fast-check'
import { test } from 'tap'
import type { AdcpError, Release } from '../../src/adcp/answer.js'
import { ActivateSignalRequest, GetSignalsRequest } from '../../src/adcp/signal-requests.js'
import * as accounts from '../../src/adcp/task-schemas.js'
import * as protocol from '../../src/adcp/task-schemas.js'
import { answerFault } from '../support/adcp-answers.js'
import { type Answer, BUYER, startWorld } from '../support/federation.js'
import { proven } from '../support/proven.js'
import { lackOf } from '../support/refusal.js'
import { HUGE, type Input, requestsOf } from './support/random-requests.js'

const REQUESTS = {
  get_adcp_capabilities: protocol.CapabilitiesRequest,
  get_signals: GetSignalsRequest,
  activate_signal: ActivateSignalRequest,
  get_task_status: protocol.GetTaskStatusRequest,
  list_tasks: protocol.ListTasksRequest,
  list_accounts: accounts.ListAccountsRequest,
  sync_accounts: accounts.SyncAccountsRequest,
  report_usage: accounts.ReportUsageRequest,
}
type Task = keyof typeof REQUESTS
type Way = 'mcp' | 'a2a 1.0' | 'a2a 0.3'

const PINS: readonly Release[] = ['3.0', '3.1', '3.2-beta.5']
const WAYS: readonly Way[] = ['mcp', 'a2a 1.0', 'a2a 0.3']
const MOST_TASKS = 20
const RUNS = 80
/** What at least has to come of so many requests. */
const STATUSES = ['get_signals completed', 'activate_signal submitted', 'sync_accounts completed']
const TASKS = Object.keys(REQUESTS) as Task[]

const acme = { brand: { domain: 'acme.example' }, operator: 'acme.example' }
const entry = { ...acme, billing: 'agent' }
const reporting_period = { start: '2026-01-01T00:00:00Z', end: '2026-02-01T00:00:00Z' }

/** What was answered wrongly once. */
const ONCE_WRONG: [Task, Input][] = [
  ['sync_accounts', { accounts: [{ ...entry, brand: { ...acme.brand, brand_id: 'Cars & more' } }] }],
  ['sync_accounts', { accounts: [{ ...entry, billing_entity: { legal_name: 5 } }] }],
  ['sync_accounts', { accounts: [{ ...entry, payment_terms: 'soon' }] }],
  ['sync_accounts', { accounts: [entry], ext: { half: '\ud800' } }],
  ['sync_accounts', { accounts: [entry], ext: { huge: HUGE } }],
  [
    'report_usage',
    { reporting_period, usage: [{ account: acme, vendor_cost: 0, currency: 'USD', '\udc00': '\ud800' }] },
  ],
]

type Result = { structuredContent: Answer; isError?: boolean; content: { text: string }[] }
type Part = { kind?: string; data?: Answer; text?: string }
type A2aTask = { kind?: string; id: string; status: { state: string }; artifacts: { parts: Part[] }[] }

const FAILED: Record<string, string> = { 'a2a 1.0': 'TASK_STATE_FAILED', 'a2a 0.3': 'failed' }
const COMPLETED: Record<string, string> = { 'a2a 1.0': 'TASK_STATE_COMPLETED', 'a2a 0.3': 'completed' }

function bodyOf(way: Way, task: string, input: Input): object {
  if (way === 'mcp') return { method: 'tools/call', params: { name: task, arguments: input } }
  if (way === 'a2a 1.0') {
    const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: task, input } }] }
    return { method: 'SendMessage', params: { message } }
  }
  const part = { kind: 'data', data: { skill: task, parameters: input } }
  return {
    method: 'message/send',
    params: { message: { kind: 'message', messageId: 'm', role: 'user', parts: [part] } },
  }
}

/** The input as JSON text, which may hold a number beyond doubles. */
const textOf = (value: unknown) => JSON.stringify(value).replaceAll(`"${HUGE}"`, '1e999')

async function post(url: string, way: Way, task: string, input: Input, key?: string): Promise<object> {
  const reply = await fetch(`${url}/${way === 'mcp' ? 'mcp' : 'a2a'}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(key && { authorization: `Bearer ${key}` }),
      ...(way === 'mcp' && { 'mcp-protocol-version': '2025-06-18' }),
      ...(way === 'a2a 1.0' && { 'a2a-version': '1.0' }),
    },
    body: textOf({ jsonrpc: '2.0', id: 1, ...bodyOf(way, task, input) }),
  })
  if (reply.status === 503) {
    await wait(250) // a busy machine turned it away
    return post(url, way, task, input, key)
  }
  if (reply.status !== 200) throw new Error(`HTTP ${reply.status}: ${await reply.text()}`)
  const { result, error } = (await reply.json()) as { result?: object; error?: object }
  if (!result) throw new Error(`JSON-RPC error ${JSON.stringify(error)}`)
  return result
}

/** The answer in a result of the transport, and what is wrong with the result. */
function unpacked(way: Way, result: object): { answer: Answer; fault?: string } {
  if (way === 'mcp') {
    const read = CallToolResultSchema.strict().safeParse(result)
    const { structuredContent: answer, isError = false, content } = result as Result
    if (!read.success) return { answer, fault: `is no result of a tool: ${read.error.message}` }
    if (isError !== (answer.status === 'failed')) return { answer, fault: `isError is ${isError}` }
    return content[0]?.text ? { answer } : { answer, fault: 'has no text' }
  }
  const task = (way === 'a2a 1.0' ? (result as { task: A2aTask }).task : result) as A2aTask
  const [{ parts } = { parts: [] }] = task.artifacts
  const [first, second] = parts
  const answer = first?.data as Answer
  const state = (answer.status === 'failed' ? FAILED : COMPLETED)[way]
  if (task.status.state !== state || task.artifacts.length !== 1 || parts.length !== 2 || !second?.text)
    return { answer, fault: `is a task that nobody reads: ${JSON.stringify({ ...task, artifacts: [] })}` }
  const isOld = task.kind === 'task' && first?.kind === 'data' && second.kind === 'text'
  return isOld === (way === 'a2a 0.3') ? { answer } : { answer, fault: 'is in the words of another A2A' }
}

test('whatever is asked, the answer is one that strict clients read', async (t) => {
  const world = await startWorld({ signals: 240, config: () => ({ preview_releases: ['3.2-beta.5'] }) })
  t.teardown(() => world.close())
  const { url } = world.federation
  const page = await world.wholesale({ pagination: { max_results: 30 } })
  const seen = {
    rows: page.signals ?? [],
    cursor: String(page.pagination?.cursor),
    feedVersion: String(page.wholesale_feed_version),
    pricingVersion: String(page.pricing_version),
    tasks: ['task_of_nobody'],
  }
  const listed = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  })
  const { tools } = ((await listed.json()) as { result: { tools: { name: string; outputSchema: object }[] } })
    .result
  const ajv = new Ajv({ strict: true })
  const outputs = new Map(tools.map(({ name, outputSchema }) => [name, ajv.compile(outputSchema)]))

  const told = new Set<string>()

  async function faultOf(
    task: Task,
    way: Way,
    pin: Release,
    input: Input,
    key = BUYER,
  ): Promise<string | undefined> {
    const { answer, fault } = unpacked(way, await post(url, way, task, { ...input, adcp_version: pin }, key))
    if (fault) return fault
    if (typeof answer.task_id === 'string' && seen.tasks.length < MOST_TASKS) seen.tasks.push(answer.task_id)
    told.add(`${task} ${answer.adcp_error?.code ?? answer.status}`)
    if (answer.adcp_version !== pin) return `names ${answer.adcp_version}`
    const isObject =
      typeof input.context === 'object' && input.context !== null && !Array.isArray(input.context)
    const sent = isObject ? JSON.parse(textOf(input.context)) : undefined
    if (!isDeepStrictEqual(answer.context, sent))
      return `context came back as ${JSON.stringify(answer.context)}`
    const output = outputs.get(task)
    if (!output?.(answer)) return `is not what outputSchema says: ${JSON.stringify(output?.errors)}`
    const { adcp_error: error } = answer
    if (error?.message.startsWith('Something went wrong')) return 'is our own bug'
    return answerFault(task, answer, pin) ?? (error && lackOf(error as AdcpError))
  }

  for (const [task, input] of ONCE_WRONG)
    for (const pin of PINS) {
      const fault = await faultOf(task, 'mcp', pin, { idempotency_key: randomUUID(), ...input })
      t.equal(fault, undefined, `${task} in ${pin}: ${JSON.stringify(input)}`)
    }

  const asked = fc
    .constantFrom(...TASKS)
    .chain((task) => fc.tuple(fc.constant(task), requestsOf(task, REQUESTS[task], seen)))
  const property = fc.asyncProperty(
    asked,
    fc.constantFrom(...WAYS),
    fc.constantFrom(...PINS),
    fc.constantFrom(BUYER, BUYER, BUYER, ''),
    async ([task, input], way, pin, key) => {
      const fault = await faultOf(task, way, pin, input, key)
      if (fault) throw new Error(`${task} over ${way}: ${fault}`)
    },
  )
  await proven(t, RUNS, property)
  t.comment([...told].sort().join(', '))
  for (const task of TASKS)
    t.ok(
      [...told].some((one) => one.startsWith(`${task} `)),
      `${task} was asked`,
    )
  for (const status of STATUSES) t.ok(told.has(status), status)
})
