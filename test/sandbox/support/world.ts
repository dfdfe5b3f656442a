/** A sandbox for one test, and the official SDKs' clients to ask its agents. */
import { Role, type SendMessageResult } from '@a2a-js/sdk'
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from '@a2a-js/sdk/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Test } from 'tap'
import type { AgentId } from '../../../sandbox/parties.js'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../../sandbox/world.js'
import type { SignalRow } from '../../../src/adcp/signal.js'

export type Payload = Record<string, unknown> & {
  status: string
  signals?: SignalRow[]
  pagination?: { has_more: boolean; cursor?: string; total_count?: number }
  deployments?: SignalRow['deployments']
  adcp_error?: { code: string; field?: string }
}

export async function open(t: Test, options: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({ signals: 240, ...options })
  t.teardown(() => sandbox.close())
  return sandbox
}

/** Where a url of the sandbox answers this time. */
export function located(sandbox: Sandbox, url: string | URL): URL {
  const { hostname, pathname, search } = new URL(url)
  return new URL(pathname + search, sandbox.hosts[hostname])
}

async function overMcp(url: URL, task: string, args: Record<string, unknown>): Promise<Payload> {
  const client = new Client({ name: 'sandbox-test', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(url))
  try {
    const result = await client.callTool({ name: task, arguments: args })
    return result.structuredContent as Payload
  } finally {
    await client.close()
  }
}

function dataOf(result: SendMessageResult): Payload {
  const parts = 'artifacts' in result ? (result.artifacts[0]?.parts ?? []) : []
  const data = parts.flatMap(({ content }) => (content?.$case === 'data' ? [content.value] : []))
  return data.at(-1) as Payload
}

/** Asks over A2A with the official client, in the protocol version given. */
export async function overA2a(
  sandbox: Sandbox,
  version: '1.0' | '0.3',
  task: string,
  args: Record<string, unknown>,
): Promise<Payload> {
  const fetchImpl: typeof fetch = (input, init) => fetch(located(sandbox, String(input)), init)
  const legacyCompat = { enabled: version === '0.3' }
  const factory = new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl, legacyCompat })],
  })
  const card = await new DefaultAgentCardResolver({ fetchImpl }).resolve(sandbox.agents.harborlight.url)
  const supportedInterfaces = card.supportedInterfaces.filter((each) => each.protocolVersion === version)
  const client = await factory.createFromAgentCard({ ...card, supportedInterfaces })
  const content = {
    $case: 'data' as const,
    value: { skill: task, [version === '1.0' ? 'input' : 'parameters']: args },
  }
  const message = {
    messageId: 'm-1',
    contextId: '',
    taskId: '',
    role: Role.ROLE_USER,
    parts: [{ content, metadata: undefined, filename: '', mediaType: '' }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  }
  return dataOf(
    await client.sendMessage({ tenant: '', message, configuration: undefined, metadata: undefined }),
  )
}

/** Asks an agent over its own transport. */
export function ask(
  sandbox: Sandbox,
  id: AgentId,
  task: string,
  args: Record<string, unknown> = {},
): Promise<Payload> {
  if (id === 'harborlight') return overA2a(sandbox, '1.0', task, args)
  return overMcp(located(sandbox, sandbox.agents[id].url), task, args)
}

/** One wholesale page. */
export function page(
  sandbox: Sandbox,
  id: AgentId,
  pagination: Record<string, unknown> = { max_results: 100 },
  more: Record<string, unknown> = {},
): Promise<Payload> {
  return ask(sandbox, id, 'get_signals', { discovery_mode: 'wholesale', pagination, ...more })
}

/** All pages of a wholesale feed. */
export async function walk(sandbox: Sandbox, id: AgentId, maxResults = 100): Promise<Payload[]> {
  const pages: Payload[] = []
  let cursor: string | undefined
  do {
    const next = await page(sandbox, id, { max_results: maxResults, ...(cursor ? { cursor } : {}) })
    pages.push(next)
    cursor = next.pagination?.cursor
  } while (cursor)
  return pages
}

export const rowsOf = (pages: readonly Payload[]): SignalRow[] =>
  pages.flatMap(({ signals }) => signals ?? [])

export async function fileAt(sandbox: Sandbox, url: string): Promise<Record<string, unknown>> {
  const response = await fetch(located(sandbox, url))
  return (await response.json()) as Record<string, unknown>
}
