import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { test } from 'tap'
import { printJobs } from '../../src/commands/operator.js'
import { callTool } from '../support/call-tool.js'
import { runCommand } from '../support/command.js'
import { startWorld } from '../support/federation.js'
import { createOutput } from '../support/output.js'
import { actingOn, BUYER, digest, type Json, OPERATOR, read } from './support/console-world.js'

const NORTHWIND = 'signals.northwind.example'
const AGENT = `https://${NORTHWIND}/mcp`
const KEYS = [
  { id: 'op', token_sha256: digest(OPERATOR), role: 'operator' },
  { id: 'buyer', token_sha256: digest(BUYER), accounts: { acc_1: { [AGENT]: { account_id: 'nw_77' } } } },
]

type Job = { id: string; kind: string; lane: string; caller: string; attempts: number; is_held: boolean }

test('an operator has open jobs tried again, or gives them up', async (t) => {
  const world = await startWorld({
    signals: 96,
    config: (hosts) => ({
      callers: { anonymous: 'metadata', keys: KEYS },
      egress: { hosts, webhook_networks: ['127.0.0.0/8'] },
    }),
  })
  t.teardown(() => world.close())
  const { url } = world.federation
  const receiver = createServer((_request, response) => response.writeHead(503).end())
  await new Promise<void>((listening) => receiver.listen(0, '127.0.0.1', listening))
  t.teardown(() => receiver.close())
  const hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook?token=of-the-buyer`

  const jobs = async () => (await read(url, 'jobs', OPERATOR)).body.jobs as Job[]
  const act = actingOn(url)
  const audit = async () => (await read(url, 'audit', OPERATOR)).body.entries as Json[]
  async function until<T>(what: string, find: () => Promise<T | undefined>): Promise<T> {
    for (const end = Date.now() + 60_000; Date.now() < end; await wait(20)) {
      const found = await find()
      if (found !== undefined) return found
    }
    throw new Error(`${what} did not happen within a minute`)
  }
  /** The job while nobody works on it: an operator acts on no other. */
  const waiting = (id: string) =>
    until(`${id} waits`, async () => (await jobs()).find((job) => job.id === id && !job.is_held))
  const gone = (id: string) =>
    until(`${id} is gone`, async () => ((await jobs()).some((job) => job.id === id) ? undefined : true))

  const rows = (await world.walk({}, BUYER)).flatMap(({ signals = [] }) => signals)
  const row = rows.find(({ ext, pricing_options: options = [] }) =>
    ext.tributary.offers.some(
      ({ upstream, handle }) =>
        upstream === NORTHWIND && options.some((one) => one.pricing_option_id.startsWith(handle)),
    ),
  )
  const offer = row?.ext.tributary.offers.find(({ upstream }) => upstream === NORTHWIND)
  const option = row?.pricing_options?.find((one) => one.pricing_option_id.startsWith(offer?.handle ?? '-'))
  const report = {
    reporting_period: { start: '2026-03-01T00:00:00Z', end: '2026-03-31T23:59:59Z' },
    usage: [
      {
        ...{ account: { account_id: 'acc_1' }, signal_agent_segment_id: row?.signal_agent_segment_id },
        ...{ pricing_option_id: option?.pricing_option_id, impressions: 10, vendor_cost: 2, currency: 'USD' },
      },
    ],
  }
  const reported = (idempotency_key: string) =>
    world.call('report_usage', { ...report, idempotency_key }, BUYER)

  await t.test('nothing is open at first', async (t) => {
    t.same(await jobs(), [])
    t.equal((await read(url, 'jobs', BUYER)).status, 403)
    t.equal((await read(url, 'jobs')).status, 401)
    t.match(await runCommand(['jobs', '--url', url, '--token', OPERATOR]), {
      code: 0,
      out: 'no job is open\n',
    })
  })

  await t.test('a report that an upstream does not take is tried again, and given up', async (t) => {
    world.sandbox.stop(NORTHWIND)
    const key = `key-${randomUUID()}`
    t.match(await reported(key), { errors: [{ code: 'SERVICE_UNAVAILABLE' }] })
    const [open] = await jobs()
    t.match(open, { kind: 'call', lane: AGENT, caller: 'buyer' })
    const { id = '' } = open ?? {}
    t.equal((await act('retry-job', id, BUYER)).status, 403)

    const before = await waiting(id)
    t.equal((await act('retry-job', id)).status, 200)
    await until('another attempt', async () =>
      (await jobs()).find((job) => job.id === id && job.attempts > before.attempts),
    )
    await waiting(id)
    const listed = createOutput()
    await printJobs({ config: 'config/sandbox.yaml', url, token: OPERATOR, json: false, out: listed.out })
    t.match(listed.text(), new RegExp(`${id} +call +${AGENT} +buyer +\\d+ +(waits|being worked on)`))

    const done = await until('it is given up', async () => {
      const command = await runCommand(['give-up', id, '--url', url, '--token', OPERATOR])
      if (command.code === 0) return command
      t.match(command.err, /being worked on now/)
    })
    t.equal(done.out, `${id}: given up\n`)
    await gone(id)
    t.equal((await act('give-up-job', id)).status, 404, 'it has ended')
    const told = /whether it counted the row is not known|ended it before it was sent/ // as the connection ended
    t.match(await reported(key), { errors: [{ message: told }] })
    const said = await audit()
    t.match(
      said.filter(({ subject, outcome }) => subject === id && outcome === 'done'),
      [
        { who: 'op', action: 'give-up-job', subject: id },
        { who: 'op', action: 'retry-job', subject: id },
      ],
    )
  })

  await t.test('a notice that its receiver does not take is given up', async (t) => {
    world.sandbox.agents.meridian.briefTakes(2_500)
    const asked = await callTool<Json>(
      url,
      'get_signals',
      {
        ...{ adcp_version: '3.1', signal_spec: 'people who buy cars' },
        time_budget: { interval: 1, unit: 'seconds' },
        push_notification_config: {
          ...{ url: hook, operation_id: 'op_1' },
          authentication: { schemes: ['Bearer'], credentials: 'a-secret-of-the-receiver-long-enough' },
        },
      },
      BUYER,
    )
    t.equal(asked.status, 'submitted')
    const notice = await until('the notice is open', async () =>
      (await jobs()).find(({ kind, attempts }) => kind === 'notice' && attempts > 0),
    )
    t.equal(notice.lane, notice.caller)
    t.notMatch((await read(url, 'jobs', OPERATOR)).text, /of-the-buyer|secret/)
    await until('it is given up', async () => {
      const { status, body } = await act('give-up-job', notice.id)
      if (status === 200) return true
      t.match([status, body], [409, { error: /being worked on/ }])
    })
    await gone(notice.id)
  })

  await t.test('what is no open job is said to be none', async (t) => {
    t.equal((await act('retry-job', 'nothing')).status, 404)
    t.equal((await act('give-up-job', 'feed-events')).status, 404, 'turns are no jobs')
  })
})
