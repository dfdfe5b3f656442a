/** Agents that offer what a test says and behave as it says. They speak MCP by hand, so that hundreds of polls a second cost little. */
import { readJson, startHttp } from '../../support/upstream-agent.js'
import type { Provider } from './scripted-strangers.js'

/** The account, as agents know it, that some of them price apart. */
export const GATED = 'gold'

export type Row = Record<string, unknown> & { signal_agent_segment_id: string }

/** Signals of one agent alone; no provider has a say. */
export function ownRow(agentUrl: string, at: number, cpm: number): Row {
  return {
    signal_agent_segment_id: `own_${at}`,
    signal_ref: { scope: 'signal_source', signal_source_url: agentUrl, signal_id: `own_${at}` },
    name: `Own ${at}`,
    description: 'Somebody who did something',
    signal_type: 'owned',
    coverage_percentage: 10,
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: false }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
  }
}

/** A signal of a provider, which must authorize the agent. */
export function providerRow(provider: Provider, at: number, cpm: number): Row {
  return {
    ...ownRow('https://unused.example', at, cpm),
    signal_agent_segment_id: `${provider}_${at}`,
    signal_ref: { scope: 'data_provider', data_provider_domain: provider, signal_id: `s${at}` },
    signal_type: 'marketplace',
  }
}

export type Agent = {
  name: string
  url: string
  /** What it offers to everybody; a row of a function is made for who asks. */
  offer(rows: readonly Row[]): void
  /** What it offers to the account `gold` instead; undefined: the rate card. */
  offerGold(rows: readonly Row[] | undefined): void
  /** Scopes that its answers say are incomplete. */
  lack(scopes: readonly string[]): void
  /** Changes something under the version token that it had. */
  quietly(change: () => void): void
  /** What it does with requests, or with those of one account. `hang`: no answer until it is told otherwise. */
  behave(how: Behaviour, whom?: 'everybody' | 'gold'): void
  calls(): number
  /** Of each first page that everybody was given or refused: whether it was asked for with a token. */
  firstPages(): readonly ('whole' | 'conditional')[]
  close(): Promise<void>
}

export type Behaviour = 'answers' | 'fails' | 'hangs'

export async function startAgent(name: string): Promise<Agent> {
  let rows: readonly Row[] = []
  let gold: readonly Row[] | undefined
  let lacking: readonly string[] = []
  let version = 1
  let calls = 0
  const firstPages: ('whole' | 'conditional')[] = []
  const behaviour: Record<'everybody' | 'gold', Behaviour> = { everybody: 'answers', gold: 'answers' }
  let waiting: (() => void)[] = []

  function signals(args: Record<string, unknown>) {
    const { account_id: account } = (args.account ?? {}) as { account_id?: string }
    const own = account === GATED ? gold : undefined
    const { cursor: at } = (args.pagination ?? {}) as { cursor?: string }
    if (account === undefined && at === undefined) {
      firstPages.push(args.if_wholesale_feed_version === undefined ? 'whole' : 'conditional')
    }
    const scope = own ? 'account' : 'public'
    const tokens = { cache_scope: scope, wholesale_feed_version: `${scope}-v${version}` }
    if (args.if_wholesale_feed_version === tokens.wholesale_feed_version) {
      return { status: 'completed', unchanged: true, ...tokens }
    }
    const { max_results: size = 50, cursor } = (args.pagination ?? {}) as Record<string, number | string>
    const all = own ?? rows
    const from = Number(cursor ?? 0)
    const to = from + Number(size)
    const more = to < all.length
    const pagination = { has_more: more, total_count: all.length, ...(more && { cursor: String(to) }) }
    const incomplete = lacking.map((one) => ({ scope: one, description: 'it is away' }))
    const signals = all.slice(from, to)
    return { status: 'completed', ...tokens, signals, pagination, ...(lacking.length > 0 && { incomplete }) }
  }

  function payload(task: string, args: Record<string, unknown>) {
    if (task !== 'get_adcp_capabilities')
      return task === 'get_signals' ? signals(args) : { status: 'completed' }
    return {
      status: 'completed',
      adcp: { major_versions: [3], supported_versions: ['3.0', '3.1'] },
      supported_protocols: ['signals'],
      signals: { discovery_modes: ['brief', 'wholesale'] },
      wholesale_feed_versioning: { supported: true },
    }
  }

  const running = await startHttp(async (request, response) => {
    const body = (await readJson(request)) as {
      id?: number
      method: string
      params?: Record<string, unknown>
    }
    const args = (body?.params?.arguments ?? {}) as { account?: { account_id?: string } }
    const whom = args.account?.account_id === GATED ? 'gold' : 'everybody'
    calls += 1
    const how = () => (behaviour.everybody === 'answers' ? behaviour[whom] : behaviour.everybody)
    while (how() === 'hangs') await new Promise<void>((resolve) => waiting.push(resolve))
    if (how() === 'fails') return void response.writeHead(503).end()
    if (body?.id === undefined) return void response.writeHead(request.method === 'POST' ? 202 : 405).end()
    const result =
      body.method === 'initialize'
        ? {
            protocolVersion: '2025-06-18',
            capabilities: { tools: {} },
            serverInfo: { name: 'scripted', version: '1' },
          }
        : body.method === 'tools/list'
          ? { tools: [{ name: 'get_signals', inputSchema: { type: 'object' } }] }
          : {
              content: [{ type: 'text', text: 'done' }],
              structuredContent: payload(String(body.params?.name), args),
            }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }))
  })

  return {
    name,
    url: running.url,
    offer(next) {
      rows = next
      version += 1
    },
    offerGold(next) {
      gold = next
      version += 1
    },
    lack(scopes) {
      lacking = scopes
      version += 1
    },
    quietly(change) {
      const before = version
      change()
      version = before
    },
    behave(how, whom = 'everybody') {
      behaviour[whom] = how
      for (const go of waiting) go()
      waiting = []
    },
    calls: () => calls,
    firstPages: () => firstPages,
    close: running.close,
  }
}
