/**
 * Walks a running feed as any caller does: through the official MCP client, page by page, starting again when the
 * version moves (specification, "mid-pagination").
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CommandFailure } from './terminal.js'

const PAGE = 100
const MAX_RESTARTS = 10

export type FeedRow = {
  signal_agent_segment_id: string
  name: string
  signal_type: string
  data_provider?: string
  deployments: { is_live: boolean }[]
  pricing_options?: Record<string, unknown>[]
  ext?: { tributary?: { offers?: { upstream: string }[] } }
  [field: string]: unknown
}

export type FeedPage = {
  signals: FeedRow[]
  version: string
  total: number | undefined
  /** The first page of a walk, or of one that had to start again. */
  first: boolean
  incomplete: { scope: string; description: string }[]
}

type FeedWalkOptions = {
  url: string
  token: string | undefined
  filters: Record<string, unknown> | undefined
}

type Answer = {
  status?: string
  adcp_error?: { code: string; message: string }
  signals?: FeedRow[]
  wholesale_feed_version?: string
  pagination?: { has_more: boolean; cursor?: string; total_count?: number }
  incomplete?: FeedPage['incomplete']
}

async function connected(
  client: Client,
  transport: StreamableHTTPClientTransport,
  url: string,
): Promise<void> {
  try {
    await client.connect(transport)
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (code === 401) throw new CommandFailure(`${url} asks for a key; give one with --token`)
    if (code === 403) throw new CommandFailure(`${url} does not accept this key; give another with --token`)
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : ''
    throw new CommandFailure(`${url} cannot be reached${cause}; is "tributary serve" running there?`)
  }
}

/** The pages of one walk. Throws `CommandFailure` when the feed cannot be reached, refuses, or keeps moving. */
export async function* walkFeed({ url, token, filters }: FeedWalkOptions): AsyncGenerator<FeedPage> {
  const client = new Client({ name: 'tributary-feed', version: '1' })
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {}
  await connected(client, new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }), url)
  try {
    let version: string | undefined
    let cursor: string | undefined
    for (let restarts = 0; restarts <= MAX_RESTARTS; ) {
      const pagination = { max_results: PAGE, ...(cursor && { cursor }) }
      const request = {
        discovery_mode: 'wholesale',
        adcp_version: '3.1',
        pagination,
        ...(filters && { filters }),
      }
      const result = await client.callTool({ name: 'get_signals', arguments: request })
      const answer = result.structuredContent as Answer
      if (answer.adcp_error)
        throw new CommandFailure(`${answer.adcp_error.code}: ${answer.adcp_error.message}`)
      const current = answer.wholesale_feed_version ?? ''
      if (cursor && current !== version) {
        cursor = undefined
        restarts += 1
        continue
      }
      const first = cursor === undefined
      version = current
      cursor = answer.pagination?.has_more ? answer.pagination.cursor : undefined
      yield {
        signals: answer.signals ?? [],
        version,
        total: answer.pagination?.total_count,
        first,
        incomplete: answer.incomplete ?? [],
      }
      if (!cursor) return
    }
    throw new CommandFailure('the feed changed during every walk; try again when its upstreams are quieter')
  } finally {
    await client.close()
  }
}
