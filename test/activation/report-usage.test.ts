import tap, { test } from 'tap'
import type { Answer } from '../../src/adcp/answer.js'
import type { ReportUsageRequest } from '../../src/adcp/task-schemas.js'
import { buyer, other, rosterOf, soon } from './support/parts.js'
import {
  asks,
  type Choice,
  first,
  key,
  losingAnswers,
  startWorld,
  urlsOf,
  type World,
  withdrawOffer,
} from './support/world.js'

const NORTHWIND = 'https://signals.northwind.example/mcp'
const accounts = new Map([['acc_1', new Map([[NORTHWIND, { account_id: 'nw_77' }]])]])
const caller = { ...buyer, accounts }
const period = { start: '2026-03-01T00:00:00Z', end: '2026-03-31T23:59:59Z' }

function row({ signal, option }: Pick<Choice, 'signal' | 'option'>, more: object = {}) {
  return {
    ...{ account: { account_id: 'acc_1' }, signal_agent_segment_id: signal, pricing_option_id: option },
    ...{ impressions: 1_000, vendor_cost: 2, currency: 'USD' },
    ...more,
  }
}

function report(world: World, usage: object[], as = caller, idempotency_key = key()): Promise<Answer> {
  const request = { idempotency_key, reporting_period: period, usage } as ReportUsageRequest
  return world.activation.reportUsage(request, as, soon())
}

/** Reports that upstreams were sent, the last at the end. */
const seen: { agentUrl: string; args: Record<string, unknown> }[] = []
/** For the tests that find every upstream there; the first of them counts from nothing. */
const shared = await startWorld(tap, {
  call: (call) => async (agentUrl, task, args, context) => {
    if (task === 'report_usage') seen.push({ agentUrl, args })
    return await call(agentUrl, task, args, context)
  },
})

test('rows go to the upstream that sold the signal, under its ids', async (t) => {
  const northwind = first(shared.choices('northwind'))
  const meridian = first(shared.choices('meridian'))
  const used = key()
  const usage = [row(northwind), row(meridian), row(northwind, { impressions: 5, final: true, note: 'kept' })]
  t.match(await report(shared, usage, caller, used), {
    kind: 'answer',
    fields: { accepted: 3, errors: undefined },
  })
  t.equal(shared.sandbox.agents.northwind.usageRows(), 2)
  t.equal(shared.sandbox.agents.meridian.usageRows(), 1)
  const toNorthwind = seen.find(({ agentUrl }) => agentUrl === urlsOf(shared.sandbox).northwind)?.args
  t.match(toNorthwind, {
    idempotency_key: /^trb_/,
    reporting_period: period,
    usage: [
      {
        account: { account_id: 'nw_77' },
        signal_agent_segment_id: /^nw_seg_/,
        pricing_option_id: /^nw_seg_/,
      },
      { impressions: 5, final: true, note: 'kept' },
    ],
  })
  t.match(await report(shared, usage, caller, used), { replayed: true, fields: { accepted: 3 } })
  t.equal(shared.sandbox.agents.northwind.usageRows(), 2, 'a replay counts nothing')
})

test('a part without an answer is told for its rows, and the same request counts nothing twice', async (t) => {
  const { lost, call } = losingAnswers()
  const world = await startWorld(t, {
    call:
      (make) =>
      (agentUrl, ...rest) =>
        agentUrl === urlsOf(world.sandbox).meridian ? call(make)(agentUrl, ...rest) : make(agentUrl, ...rest),
  })
  const usage = [row(first(world.choices('meridian'))), row(first(world.choices('northwind')))]
  const used = key()
  lost.next = 2
  const partial = await report(world, usage, caller, used)
  t.match(partial, {
    kind: 'answer',
    fields: {
      accepted: 1,
      errors: [{ code: 'SERVICE_UNAVAILABLE', field: 'usage[0]', retry_after: Number }],
    },
  })
  t.match(await report(world, usage, caller, used), { fields: { accepted: 2, errors: undefined } })
  t.equal(world.sandbox.agents.meridian.usageRows(), 1)
  t.equal(world.sandbox.agents.northwind.usageRows(), 1)
})

test('what certainly reached nobody is sent as for the first time, so an agent need not recognise it', async (t) => {
  const sentAt: (number | undefined)[] = []
  let isFull = true
  const world = await startWorld(t, {
    agents: ['northwind'],
    call: (call) => async (agentUrl, task, args, context) => {
      if (task !== 'report_usage') return await call(agentUrl, task, args, context)
      sentAt.push(context.sentAt)
      if (!isFull) return await call(agentUrl, task, args, context)
      return { kind: 'failed', reason: 'backing_off', message: 'no place was free' }
    },
  })
  const used = key()
  const usage = [row(first(world.choices('northwind')))]
  t.match(await report(world, usage, caller, used), { fields: { accepted: 0 } })
  isFull = false
  t.match(await report(world, usage, caller, used), { fields: { accepted: 1 } })
  t.same([...new Set(sentAt)], [undefined])
})

test('rows that name nothing are told one by one, and the others are accepted', async (t) => {
  const choice = first(shared.choices('northwind'))
  const { signal_agent_segment_id: _, ...nameless } = row(choice)
  const usage = [
    row({ signal: 'sig_AAAAAAAAAAAAAAAAAAAAAA', option: choice.option }),
    row(choice),
    row({ ...choice, option: `${choice.offer}.AAAAAAAAAA` }),
    nameless,
    row(choice, { account: { account_id: 'acc_9' } }),
  ]
  t.match(await report(shared, usage), {
    fields: {
      accepted: 1,
      errors: [
        { code: 'REFERENCE_NOT_FOUND', field: 'usage[0].signal_agent_segment_id' },
        { code: 'REFERENCE_NOT_FOUND', field: 'usage[2].signal_agent_segment_id' },
        { code: 'INVALID_REQUEST', field: 'usage[3].signal_agent_segment_id' },
        { code: 'ACCOUNT_NOT_FOUND', field: 'usage[4].account' },
      ],
    },
  })
})

test('usage of what left the feed is reported through the ledger, by who activated it', async (t) => {
  const world = await startWorld(t, { agents: ['northwind'] })
  const { northwind } = world.sandbox.agents
  const choice = first(world.choices('northwind').slice(-1))
  await world.activate(asks(choice), caller)
  await withdrawOffer(world, choice.offer)
  t.match(await report(world, [row(choice)]), { fields: { accepted: 1 } })
  t.match(await report(world, [row(choice)], { ...other, accounts }), { fields: { accepted: 0 } })
  t.equal(northwind.usageRows(), 1)
})

test('usage for an agent that left goes with the name that the account has there', async (t) => {
  const sent: Record<string, unknown>[] = []
  const world = await startWorld(t, {
    agents: ['northwind'],
    call: (call) => async (agentUrl, task, args, context) => {
      if (task === 'report_usage') sent.push(args)
      return await call(agentUrl, task, args, context)
    },
  })
  const choice = first(world.choices('northwind'))
  await world.activate(asks(choice, { account: { account_id: 'acc_1' } }), caller)
  world.upstreams.reconfigure(rosterOf([]))
  t.same(world.upstreams.statuses(), [], 'nobody is in the roster')
  t.match(await report(world, [row(choice)]), { fields: { accepted: 1 } })
  t.match(sent, [{ usage: [{ account: { account_id: 'nw_77' } }] }])
})
