import { hash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createWeb } from '../authz/world.js'
import { openTributary } from '../support/listing-registry.js'
import { startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'

const OPERATOR = 'operator-key'
const HANGING = 300
const AT_ONCE = 16 // fetches for one upstream
const BIG = 12
const WELL_KNOWN = '/.well-known/adagents.json'

function row(domain: string) {
  return {
    signal_ref: { scope: 'data_provider', data_provider_domain: domain, signal_id: 's' },
    signal_agent_segment_id: `segment_${domain}`,
    name: `Signal of ${domain}`,
    description: 'People who were seen',
    signal_type: 'marketplace',
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: false }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 2, currency: 'USD' }],
  }
}

const file = (url: string, more: object = {}) => ({
  signals: [{ id: 's', name: 'S', value_type: 'binary' }],
  authorized_agents: [{ url, authorized_for: 'x', authorization_type: 'signal_ids', signal_ids: ['s'] }],
  ...more,
})

const CLOSING_TURNS = 20

/**
 * Counts a request that is never answered while its connection is open. One that takes the place of another may be seen
 * before the other's end, which this process is told of within a few turns, however slow it is: it counts after these.
 */
async function countWhileOpen(
  response: ServerResponse,
  atOnce: { now: number; most: number },
): Promise<void> {
  for (let turn = 0; turn < CLOSING_TURNS; turn += 1) await nextTurn()
  if (response.destroyed) return
  atOnce.now += 1
  atOnce.most = Math.max(atOnce.most, atOnce.now)
  response.once('close', () => {
    atOnce.now -= 1
  })
}

/** Each agent has a host of its own, because one owner has one share. */
const hostOf = (id: string) => `${id}-agents.example`
const urlOf = (id: string) => `https://${hostOf(id)}/mcp`

async function until(holds: () => Promise<boolean>, ms: number): Promise<boolean> {
  for (const end = Date.now() + ms; Date.now() < end; ) {
    if (await holds()) return true
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return false
}

test('an upstream that names hanging, invented and huge providers takes nothing from another', async (t) => {
  const hanging = Array.from({ length: HANGING }, (_, i) => `hang${i}.example`)
  const big = Array.from({ length: BIG }, (_, i) => `sub${i}.evil.example`)
  const web = await createWeb()
  t.teardown(web.close)
  let hung = 0
  const atOnce = { now: 0, most: 0 }
  for (const host of hanging) {
    web.page(`${host}${WELL_KNOWN}`, (_, response) => {
      hung += 1
      void countWhileOpen(response, atOnce)
    })
  }
  const hostile = await startMcpAgent(wholesaleAgent(hanging.map(row), 'v1').handle)
  const huge = await startMcpAgent(wholesaleAgent(big.map(row), 'v1').handle)
  for (const each of [hostile, huge]) t.teardown(each.close)
  for (const host of big)
    web.page(`${host}${WELL_KNOWN}`, { body: file(urlOf('huge'), { host, pad: 'x'.repeat(400_000) }) })

  // The honest agent shows its rows once the hostile one's providers take every place that they can get.
  const rows = wholesaleAgent([row('honest.example')], 'v1')
  const handle: TaskHandler = (task, args) =>
    task === 'get_signals' && hung === 0 ? undefined : rows.handle(task, args)
  const honest = await startMcpAgent(handle)
  t.teardown(honest.close)
  web.page(`honest.example${WELL_KNOWN}`, { body: file(urlOf('honest'), { pad: 'x'.repeat(400_000) }) })

  const agents = { hostile, huge, honest }
  const settings = {
    upstreams: Object.keys(agents).map((id) => ({ id, url: urlOf(id), protocol: 'mcp' })),
    defaults: { refresh: '1s' },
    limits: { provider_domains_per_upstream: 100, provider_bytes: '2MiB' },
    egress: {
      allow_networks: ['127.0.0.0/8'],
      hosts: Object.fromEntries([
        ...[...big, ...hanging, 'honest.example'].map((host) => [host, web.origin]),
        ...Object.entries(agents).map(([id, { origin }]) => [hostOf(id), origin]),
      ]),
    },
    callers: {
      anonymous: 'metadata',
      keys: [{ id: 'op', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' }],
    },
  }
  // It opens without the providers that hang.
  const { url, ready } = await openTributary(t, settings, systemClock, 500)
  await ready
  const headers = { authorization: `Bearer ${OPERATOR}` }
  const reasonOf = async (domain: string) => {
    const answer = (await (await fetch(`${url}/explain?ref=${domain}/s`, { headers })).json()) as {
      reason: string
      signal?: { offers: { evidence?: { reason?: string } }[] }
    }
    return answer.signal?.offers[0]?.evidence?.reason ?? answer.reason
  }
  const isPresent = async () => (await reasonOf('honest.example')) === 'present'

  t.ok(await until(isPresent, 60_000), 'the honest signal is there while others hang')
  t.ok(hung > 0, `${hung} hanging fetches before`)
  const anyOf = async (domains: readonly string[], reason: string) =>
    (await Promise.all(domains.map(reasonOf))).includes(reason)
  t.ok(
    await until(() => anyOf(big, 'over_budget'), 60_000),
    'huge files of one domain do not fit their share',
  )
  t.ok(await until(() => anyOf(hanging, 'too_many_domains'), 60_000), 'invented domains are beyond the share')
  t.ok(await isPresent(), 'the honest signal stays')
  t.ok(atOnce.most > 0 && atOnce.most <= AT_ONCE, `at most ${atOnce.most} hung at once`)
  const metrics = await (await fetch(`${url}/metrics`, { headers })).text()
  t.match(metrics, /tributary_providers\{state="too_many_domains"\} 200/)
  t.match(metrics, /tributary_providers\{state="over_budget"\} \d+/)
  t.match(metrics, /tributary_provider_bytes \d+/)
  t.ok(Number(/tributary_provider_bytes (\d+)/.exec(metrics)?.[1]) <= 2 * 1024 * 1024)
})
