import { test } from 'tap'
import { located, open, overA2a } from './support/world.js'

for (const version of ['1.0', '0.3'] as const) {
  test(`the official client of ${version} reads the feed and gets failures as answers`, async (t) => {
    const sandbox = await open(t)
    const feed = { discovery_mode: 'wholesale', pagination: { max_results: 3 } }
    const page = await overA2a(sandbox, version, 'get_signals', { ...feed, context: { trace: version } })
    t.match(page, { status: 'completed', cache_scope: 'public', context: { trace: version } })
    t.equal(page.signals?.length, 3)
    const failed = await overA2a(sandbox, version, 'get_signals', { ...feed, signal_spec: 'x' })
    t.match(failed, { status: 'failed', adcp_error: { code: 'INVALID_REQUEST' } })
    const unknown = await overA2a(sandbox, version, 'make_coffee', {})
    t.equal(unknown.status, 'failed')
  })
}

test('one card serves clients of both releases, wherever they look for it', async (t) => {
  const sandbox = await open(t)
  const { origin } = new URL(sandbox.agents.harborlight.url)
  for (const path of ['/.well-known/agent.json', '/a2a/.well-known/agent-card.json']) {
    const card = (await (await fetch(located(sandbox, origin + path))).json()) as Record<string, unknown>
    t.match(card, {
      url: sandbox.agents.harborlight.url,
      protocolVersion: '0.3.0',
      preferredTransport: 'JSONRPC',
    })
    t.match(card.supportedInterfaces, [{ protocolVersion: '1.0' }, { protocolVersion: '0.3' }])
    t.ok((card.skills as { id: string }[]).some(({ id }) => id === 'get_signals'))
  }
})

test('malformed JSON is a JSON-RPC error', async (t) => {
  const sandbox = await open(t)
  for (const version of ['1.0', '0.3']) {
    const response = await fetch(located(sandbox, sandbox.agents.harborlight.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': version },
      body: '{"jsonrpc":',
    })
    t.match(await response.json(), { jsonrpc: '2.0', id: null, error: { code: Number } })
  }
})
