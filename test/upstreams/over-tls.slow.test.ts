import { writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { type CheckReport, checkConfig } from '../../src/composition/check.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { runCommand } from '../support/command.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { type Certificate, startHttps, TRUSTING } from '../support/tls.js'
import { readJson } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const PROVIDER = 'provider.example'
const ids = ['one', 'two', 'three']
const listed = ids.map((signal_id, at) =>
  row(at, { signal_ref: { scope: 'data_provider', data_provider_domain: PROVIDER, signal_id } }),
)

/** A registry, an agent and a provider's file behind one https server each, and a configuration that leads to them. */
async function market(
  t: Test,
  certificates: Partial<Record<'registry' | 'agent' | 'provider', Certificate>> = {},
) {
  const { registry: listing = 'good', agent: calling = 'good', provider: publishing = 'good' } = certificates
  const feed = wholesaleAgent(listed, 'v1')
  const json = (response: ServerResponse, body: unknown) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))

  async function speakMcp(request: IncomingMessage, response: ServerResponse) {
    const { id, method, params } = (await readJson(request)) as {
      id?: number
      method: string
      params?: { name: string; arguments: Record<string, unknown> }
    }
    if (id === undefined) return void response.writeHead(202).end()
    const result =
      method === 'initialize'
        ? { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'x', version: '1' } }
        : { content: [], structuredContent: feed.handle(params?.name ?? '', params?.arguments ?? {}) }
    json(response, { jsonrpc: '2.0', id, result })
  }

  const agent = await startHttps(t, calling, speakMcp)
  const registry = await startHttps(t, listing, (_, response) =>
    json(response, { agents: [{ name: 'An agent', url: agent.url, type: 'signals' }], count: 1 }),
  )
  const provider = await startHttps(t, publishing, (_, response) =>
    json(response, {
      signals: ids.map((id) => ({ id, name: id, value_type: 'binary' })),
      authorized_agents: [
        {
          url: agent.url,
          authorized_for: 'its signals',
          authorization_type: 'signal_ids',
          signal_ids: ids,
        },
      ],
      last_updated: '2026-01-01T00:00:00Z',
    }),
  )
  const folder = await temporaryFolder(t)
  const file = join(folder, 'config.json')
  const settings = {
    registries: [{ url: registry.origin }],
    upstreams: [{ id: 'known', url: agent.url }],
    egress: { allow_networks: ['127.0.0.0/8'], hosts: { [PROVIDER]: provider.origin } },
  }
  await writeFile(file, JSON.stringify(settings))

  return {
    /** In a process that trusts the authority of these certificates. */
    async trusting(): Promise<CheckReport> {
      const { out, err } = await runCommand(['check', '--config', file, '--json'], TRUSTING)
      t.comment(err)
      return JSON.parse(out) as CheckReport
    },
    /** In this one, which does not. */
    async here(): Promise<CheckReport> {
      const config = parseConfig(file, JSON.stringify(settings), {})
      const options = { config, clock: systemClock, random: Math.random, onProgress: () => {} }
      return JSON.parse(JSON.stringify(await checkConfig(options))) as CheckReport
    },
  }
}

test('registry, agent and provider over https are federated once the operator trusts their authority', async (t) => {
  const check = await market(t)
  t.match(await check.trusting(), {
    outcome: 'complete',
    signals: ids.length,
    registries: [{ agents: 1 }],
    upstreams: [{ id: 'known', protocol: 'mcp', state: 'fresh', rows: ids.length, published: ids.length }],
    providers: [{ domain: PROVIDER, url: `https://${PROVIDER}/.well-known/adagents.json` }],
  })
  const problem = { reason: 'unreachable', message: /authority that is not trusted here/ }
  t.match(await check.here(), {
    outcome: 'nothing',
    registries: [{ problem }],
    upstreams: [{ state: 'absent', problem }],
  })
})

test('a bad certificate is named as the reason at each of them, and costs the others nothing', async (t) => {
  const check = await market(t, { registry: 'expired', provider: 'other-name' })
  t.match(await check.trusting(), {
    outcome: 'nothing',
    registries: [{ problem: { reason: 'unreachable', message: /its certificate has expired/ } }],
    upstreams: [{ state: 'fresh', rows: ids.length, published: 0 }],
    providers: [{ problem: { message: /its certificate is for another name/ } }],
  })
})
