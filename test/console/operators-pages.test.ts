import { test } from 'tap'
import { callTool } from '../support/call-tool.js'
import { type Signal, startWorld } from '../support/federation.js'
import { BUYER, digest, OPERATOR, read } from './support/console-world.js'

const NORTHWIND = 'signals.northwind.example'
const LEFT_OUT = 'https://left-out.example/mcp?api_key=a-planted-key-0001'

test('operators are shown upstreams, activity and the server, and nobody else is', async (t) => {
  const world = await startWorld({
    signals: 96,
    config: () => ({
      upstreams: [
        { id: 'gone', url: 'http://127.0.0.1:9/mcp', auth: { type: 'bearer', token: 'a-planted-token' } },
        { url: LEFT_OUT, exclude: true },
      ],
      callers: {
        keys: [
          { id: 'op', token_sha256: digest(OPERATOR), role: 'operator' },
          {
            ...{ id: 'buyer', token_sha256: digest(BUYER) },
            accounts: { acc: { [`https://${NORTHWIND}/mcp`]: { account_id: 'nw_77' } } },
          },
        ],
        rate_limit: { per_second: 1, burst: 60 },
      },
    }),
  })
  t.teardown(() => world.close())
  const { url } = world.federation
  const asked = async (path: string) => (await read(url, path, OPERATOR)).body

  await t.test(
    'upstreams: the worst first, counted by state, found by a part of the name, one alone',
    async (t) => {
      const all = await asked('upstreams')
      const of = all.means as Record<string, string>
      t.equal(of.no_file, 'the provider publishes no adagents.json', 'reasons in words')
      const upstreams = all.upstreams as { id: string; state: string }[]
      t.equal(upstreams[0]?.state, 'absent')
      const states = all.states as Record<string, number>
      t.equal(states.absent, upstreams.filter(({ state }) => state === 'absent').length)
      t.equal(
        Object.values(states).reduce((sum, one) => sum + one, 0),
        all.total,
      )
      const found = await asked('upstreams?q=NORTHW')
      t.match(found, { total: 1, upstreams: [{ id: NORTHWIND, carried: [] }] })
      t.match(await asked('upstreams?id=gone'), { total: 1, upstreams: [{ id: 'gone', state: 'absent' }] })
      t.match(await asked('upstreams?id=gon'), { total: 0, upstreams: [] })
    },
  )

  await t.test('upstreams: trouble and what is left out in words, without credentials in urls', async (t) => {
    const { upstreams, excluded } = await asked('upstreams')
    const gone = (upstreams as { id: string }[]).find(({ id }) => id === 'gone')
    t.match(gone, {
      problem: { reason: 'refused', means: 'it is at an address that may not be called', remedy: /egress/ },
    })
    t.match(excluded, [
      {
        url: 'https://left-out.example/mcp',
        reason: 'excluded',
        means: 'the configuration or an operator leaves it out',
      },
    ])
    t.match(await asked('upstreams?q=left-out.ex'), { excluded_total: 1 })
    t.match(await asked('upstreams?q=a-planted-key'), { excluded_total: 0 }, 'a search finds no credential')
    const act = (action: string, subject: string) =>
      read(url, 'actions', OPERATOR, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ action, subject }),
      })
    const admitted = await act('admit-upstream', 'https://left-out.example/mcp')
    t.equal(admitted.status, 200, 'by what is shown')
    t.equal(admitted.body.until, 'reload', 'the configuration leaves it out')
    t.equal((await act('exclude-upstream', LEFT_OUT)).status, 200)
    for (const path of ['upstreams', 'audit', 'overview']) {
      t.notMatch(JSON.stringify(await asked(path)), 'planted', path)
    }
  })

  await t.test('providers: what a file lists, and for which agents', async (t) => {
    type Provider = { domain: string; file?: { signals: number; agents: number; agent_urls: string[] } }
    const providers = (await asked('providers')).providers as Provider[]
    t.match(providers[0], {
      domain: 'quietfield.example',
      problem: {
        reason: 'no_file',
        means: 'the provider publishes no adagents.json',
        remedy: 'the provider',
      },
    })
    const file = providers.find(({ domain }) => domain === 'motorledger.example')?.file
    t.ok(file?.agent_urls.includes(`https://${NORTHWIND}/mcp`))
    t.equal(file?.agents, file?.agent_urls.length, 'all of a few are named')
    t.ok(Number(file?.signals) > 0)
    t.notOk(providers.find(({ domain }) => domain === 'quietfield.example')?.file)
  })

  await t.test('activity: an activation and a report of usage', async (t) => {
    const { body } = await read(url, `signals?upstream=${NORTHWIND}`, BUYER)
    const row = (body.signals as Signal[]).find(({ ext }) => ext.tributary.offers.length === 1)
    const [option] = row?.pricing_options ?? []
    const named = {
      ...{ signal_agent_segment_id: row?.signal_agent_segment_id, account: { account_id: 'acc' } },
      pricing_option_id: option?.pricing_option_id,
    }
    const period = { start: '2026-03-01T00:00:00Z', end: '2026-03-31T23:59:59Z' }
    await callTool(
      url,
      'activate_signal',
      {
        ...named,
        idempotency_key: 'an-activation-key-0001',
        destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
      },
      BUYER,
    )
    const usage = [{ ...named, impressions: 1_000, vendor_cost: 2, currency: 'USD' }]
    await callTool(
      url,
      'report_usage',
      { idempotency_key: 'a-usage-key-00000001', reporting_period: period, usage },
      BUYER,
    )
    const told = await asked('activity')
    t.match(told.activations, [
      {
        ...{ caller: 'buyer', action: 'activate', upstream: NORTHWIND, name: row?.name },
        destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
        account: { account_id: 'acc' },
      },
    ])
    t.match(told.usage, [{ caller: 'buyer', agent_url: `https://${NORTHWIND}/mcp`, rows: 1 }])
    t.same(told.subscriptions, [])
  })

  await t.test('the files of the page: in gzip for who takes it, and not for who refuses it', async (t) => {
    const encodingFor = async (accepted: string) => {
      const file = await fetch(`${url}/console/app.js`, { headers: { 'accept-encoding': accepted } })
      t.equal(file.status, 200)
      await file.text()
      return file.headers.get('content-encoding')
    }
    t.equal(await encodingFor('gzip'), 'gzip')
    t.equal(await encodingFor('gzip;q=0'), null)
  })

  await t.test('the server: limits, who hit them, and the configuration in force', async (t) => {
    const told = await asked('overview')
    t.match(told.configuration, { revision: /^[0-9a-f]{12}$/, file: 'test', content: /northwind/ })
    t.notMatch(told, /planted/)
    t.same(
      (told.limits as { name: string }[]).map(({ name }) => name),
      ['memory', 'under_way', 'provider_bytes'],
    )
    const limits = told.limits as { used_bytes: number; limit_bytes: number; hits: number }[]
    t.ok(limits.every(({ used_bytes: used, limit_bytes: limit }) => used >= 0 && used < limit))
    t.same(told.limited_callers, [])
    for (let at = 0; at < 600; at += 1) if ((await read(url, 'signals?limit=1', BUYER)).status === 429) break
    t.match((await asked('overview')).limited_callers, [{ caller: 'buyer', times: Number }])
  })
})
