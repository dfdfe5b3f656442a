/**
 * Agents and providers that are spoken to without a network, through a `Send` of their own: no time passes in them, so that what
 * is made of their answers can be tried under a clock that only a test moves. Each agent has a rate card, and deals with some of
 * those who ask: by the account that they name, else by the credential that they bring.
 */
import type { Outbound, Send, SendOutcome } from '../../../src/net/send.js'
import { CAPABILITIES } from '../../support/upstream-feed.js'
import { ownRow, providerRow } from './scripted-agents.js'
import type { Provider } from './scripted-strangers.js'

/** One row of an agent: a provider's signal, or the agent's own. `key`: it is live, and activated by that. */
export type Offer = { provider?: Provider | undefined; at: number; cpm: number; key?: string | undefined }

/** Who asks, as an agent knows it. */
export const EVERYBODY = ''
export type Whose = string

export const OPEN_SEED = 'everything'
const PAGE = 2

export type Spoken = {
  name: string
  url: string
  briefOnly: boolean
  card: readonly Offer[]
  deals: Map<Whose, readonly Offer[]>
  /** Whose questions for signals it answers with a server error; `*`: it answers nobody anything. */
  fails: Set<Whose>
  version: number
}

export type Grants = ReadonlyMap<string, readonly string[]>
export type ProviderFile = { kind: 'serves'; grants: Grants } | { kind: 'gone' } | { kind: 'away' }

export function spokenAgent(name: string, briefOnly = false): Spoken {
  const url = `https://${name}.example/mcp`
  return { name, url, briefOnly, card: [], deals: new Map(), fails: new Set(), version: 1 }
}

export const SIGNAL_IDS = ['s0', 's1', 's2'] as const

function rowOf({ url }: Spoken, { provider, at, cpm, key }: Offer) {
  return {
    ...(provider ? providerRow(provider, at, cpm) : ownRow(url, at, cpm)),
    deployments: [
      {
        ...{ type: 'platform', platform: 'the-trade-desk', is_live: key !== undefined },
        ...(key !== undefined && { activation_key: { type: 'segment_id', segment_id: key } }),
      },
    ],
  }
}

/** Who asks: a credential counts where no account is named. */
export function whoseOf(account: string | undefined, token: string | undefined): Whose {
  return account ?? (token === undefined ? EVERYBODY : `token ${token}`)
}

type Args = Record<string, unknown> & {
  account?: { account_id?: string }
  signal_refs?: { data_provider_domain?: string; signal_id: string }[]
  pagination?: { cursor?: string }
}

function isAsked({ provider, at }: Offer, { signal_refs: refs }: Args): boolean {
  const named = refs?.some((ref) => ref.data_provider_domain === provider && ref.signal_id === `s${at}`)
  return refs ? named === true : provider === undefined
}

/** A wholesale agent pages and knows conditions; one that answers briefs only finds its own signals, or those that are named. */
function signals(agent: Spoken, args: Args, whose: Whose) {
  const deal = agent.deals.get(whose)
  const all = deal ?? agent.card
  const scope = { cache_scope: deal ? 'account' : 'public' }
  if (agent.briefOnly) {
    if (args.discovery_mode === 'wholesale') {
      return { adcp_error: { code: 'UNSUPPORTED_FEATURE', message: 'There is no feed.' } }
    }
    const found = all.filter((one) => isAsked(one, args)).map((one) => rowOf(agent, one))
    return { status: 'completed', ...scope, signals: found, pagination: { has_more: false } }
  }
  const tokens = { ...scope, wholesale_feed_version: `${whose} ${agent.version}`, pricing_version: 'p' }
  if (args.if_wholesale_feed_version === tokens.wholesale_feed_version) {
    return { status: 'completed', unchanged: true, ...tokens }
  }
  const from = Number(args.pagination?.cursor ?? 0)
  const more = from + PAGE < all.length
  const pagination = {
    has_more: more,
    total_count: all.length,
    ...(more && { cursor: String(from + PAGE) }),
  }
  const page = all.slice(from, from + PAGE).map((one) => rowOf(agent, one))
  return { status: 'completed', ...tokens, signals: page, pagination }
}

function resultOf(agent: Spoken, method: string, name: string, args: Args, whose: Whose): object {
  if (method === 'initialize') {
    const serverInfo = { name: agent.name, version: '1' }
    return { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo }
  }
  if (method === 'tools/list') return { tools: [{ name: 'get_signals', inputSchema: { type: 'object' } }] }
  const capabilities = agent.briefOnly
    ? {
        ...CAPABILITIES,
        signals: { discovery_modes: ['brief'], data_provider_domains: ['alpha.example', 'beta.example'] },
      }
    : CAPABILITIES
  const payload = name === 'get_signals' ? signals(agent, args, whose) : capabilities
  const isError = 'adcp_error' in payload
  return {
    ...(isError && { isError }),
    content: [{ type: 'text', text: 'done' }],
    structuredContent: payload,
  }
}

function replyOf(url: string, status: number, body?: object): SendOutcome {
  const bytes = Buffer.from(body ? JSON.stringify(body) : '')
  return { kind: 'reply', status, url, headers: { 'content-type': 'application/json' }, body: bytes }
}

function agentSays(agent: Spoken, { url, body, headers = {} }: Outbound): SendOutcome {
  const { id, method, params } = JSON.parse(String(body)) as {
    id?: number
    method: string
    params?: { name?: string; arguments?: Args }
  }
  const args = params?.arguments ?? {}
  const whose = whoseOf(args.account?.account_id, headers['x-adcp-auth'])
  if (agent.fails.has('*') || (params?.name === 'get_signals' && agent.fails.has(whose)))
    return replyOf(url, 503)
  if (id === undefined) return replyOf(url, 202)
  const result = resultOf(agent, method, params?.name ?? '', args, whose)
  return replyOf(url, 200, { jsonrpc: '2.0', id, result })
}

function fileSays(file: ProviderFile, agents: readonly Spoken[], url: string): SendOutcome {
  if (file.kind === 'away') return { kind: 'failed', reason: 'unreachable', message: 'nobody is there' }
  if (file.kind === 'gone') return replyOf(url, 404)
  return replyOf(url, 200, {
    signals: SIGNAL_IDS.map((id) => ({ id, name: id, value_type: 'binary' })),
    authorized_agents: agents.flatMap(({ name, url: agentUrl }) => {
      const ids = file.grants.get(name) ?? []
      const entry = { url: agentUrl, authorized_for: 'x', authorization_type: 'signal_ids', signal_ids: ids }
      return ids.length > 0 ? [entry] : []
    }),
  })
}

/** The way to all of them, with how many requests are under way. */
export function createSpoken(agents: readonly Spoken[], files: ReadonlyMap<string, ProviderFile>) {
  let underWay = 0
  const send: Send = async (request) => {
    underWay += 1
    await new Promise(setImmediate)
    underWay -= 1
    const { hostname } = new URL(request.url)
    const agent = agents.find(({ url }) => new URL(url).hostname === hostname)
    if (agent) return agentSays(agent, request)
    const file = files.get(hostname) ?? { kind: 'away' as const }
    return fileSays(file, agents, request.url)
  }
  return { send, underWay: () => underWay }
}
