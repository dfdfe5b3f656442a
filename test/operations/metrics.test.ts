import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { test } from 'tap'
import { parse } from 'yaml'
import { startSandbox } from '../../sandbox/world.js'
import { openTributary } from '../support/listing-registry.js'

const OPERATOR = 'operator-key'
const SUFFIX = /_(bucket|sum|count)$/

type Sample = { name: string; labels: Record<string, string>; value: number }

function samplesOf(text: string): Sample[] {
  return [...text.matchAll(/^([a-z_]+)(?:\{(.*)\})? (\S+)$/gm)].map(([, name = '', labels = '', value]) => ({
    name,
    labels: Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, text]) => [key, text])),
    value: Number(value),
  }))
}

/** Names of metrics in PromQL. */
function namesIn(text: string): string[] {
  return [...new Set(text.match(/\b(tributary|nodejs|process)_[a-z0-9_]+/g) ?? [])].map((name) =>
    name.replace(SUFFIX, ''),
  )
}

test('metrics count what runs; they name upstreams to operators alone, and callers to nobody', async (t) => {
  const sandbox = await startSandbox({ signals: 48 })
  t.teardown(() => sandbox.close())
  const { url, ready, feed } = await openTributary(t, {
    registries: [{ url: sandbox.registryUrl }],
    egress: { hosts: sandbox.hosts },
    callers: {
      anonymous: 'metadata',
      keys: [
        { id: 'op', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' },
        { id: 'secret-buyer', token_sha256: hash('sha256', 'buyer-key', 'hex') },
      ],
    },
  })
  await ready
  await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      authorization: 'Bearer buyer-key',
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
      params: { name: 'get_signals', arguments: { discovery_mode: 'wholesale', pagination: {} } },
    }),
  })
  const scrape = async (key?: string) => {
    const headers: Record<string, string> = key ? { authorization: `Bearer ${key}` } : {}
    return (await fetch(`${url}/metrics`, { headers })).text()
  }
  const text = await scrape(OPERATOR)
  const samples = samplesOf(text)
  const value = (name: string, labels: Record<string, string> = {}) =>
    samples.find(
      (each) => each.name === name && Object.entries(labels).every(([key, is]) => each.labels[key] === is),
    )?.value

  t.equal(value('tributary_snapshot_signals'), feed.current()?.shown.length)
  t.ok(Number(value('tributary_snapshot_age_seconds')) >= 0)
  t.equal(value('tributary_upstream_state', { upstream: 'signals.fogbank.example', state: 'absent' }), 1)
  t.equal(value('tributary_upstream_state', { upstream: 'signals.fogbank.example', state: 'fresh' }), 0)
  t.equal(
    value('tributary_upstream_problem', { upstream: 'signals.fogbank.example', reason: 'unreachable' }),
    1,
  )
  t.ok(
    Number(
      value('tributary_upstream_requests_total', { upstream: 'signals.northwind.example', outcome: '2xx' }),
    ) > 1,
  )
  t.ok(
    Number(
      value('tributary_upstream_received_bytes_total', { upstream: 'signals.harborlight.example-a2a' }),
    ) > 1000,
  )
  t.equal(value('tributary_upstream_requests_in_flight', { upstream: 'signals.northwind.example' }), 0)
  t.ok(Number(value('tributary_offers', { upstream: 'signals.gullwing.example', fate: 'withheld' })) > 0)
  t.ok(Number(value('tributary_withheld_offers', { reason: 'agent_not_listed' })) > 0)
  t.equal(value('tributary_providers', { state: 'good' }), 3)
  t.equal(value('tributary_providers', { state: 'no_file' }), 1)
  t.equal(value('tributary_registry_agents', { registry: sandbox.registryUrl }), 6)
  t.equal(value('tributary_task_calls_total', { task: 'get_signals', outcome: 'completed' }), 1)

  await t.test('only operators see what names upstreams, and nobody sees callers', async (t) => {
    for (const open of [await scrape(), await scrape('buyer-key')]) {
      t.match(open, /tributary_task_calls_total/)
      t.notMatch(open, /tributary_upstream|example/)
    }
    t.notMatch(text, /secret-buyer/)
  })

  await t.test('every metric of the dashboard and of the alerts exists', async (t) => {
    const known = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name))
    const dashboard = JSON.parse(await readFile('deploy/grafana-dashboard.json', 'utf8')) as object
    const alerts = parse(await readFile('deploy/alerts.yaml', 'utf8')) as object
    const guide = await readFile('docs/operations.md', 'utf8')
    const asked = [JSON.stringify(dashboard), JSON.stringify(alerts), guide].flatMap(namesIn)
    t.ok(asked.length > 20)
    const page = await readFile('docs/metrics.md', 'utf8')
    const listed = [...page.matchAll(/^\| `(\w+)` \| (.*) \|$/gm)].map(([, name, what]) => [name, what])
    const helped = [...text.matchAll(/^# HELP (tributary_\S+) (.*)$/gm)].map(([, name, what]) => [name, what])
    const inOrder = (rows: (string | undefined)[][]) =>
      rows.map((row) => row.join(' ').replaceAll('`', '')).sort()
    t.same(inOrder(listed), inOrder(helped), 'the page lists each metric in the same words, and no other')
    t.same(
      asked.filter((name) => !known.has(name)),
      [],
    )
  })
})
