/**
 * Finds an A2A agent's card and reads from it where to post and in which version (docs/protocol.md#a2a). The card is
 * public and untrusted: credentials go to the url it names only when that is on the site we were configured with.
 */
import { isRecord, tryParseJson } from '../../../adcp/json.js'
import { sameSite } from '../../../net/redirect.js'
import type { Send } from '../../../net/send.js'
import { type Budget, type CallFailure, callFailed, remaining } from '../agent.js'
import { networkFailure, statusFailure } from './rpc.js'

const MAX_CARD_BYTES = 1024 * 1024
const PATHS = ['.well-known/agent.json', '.well-known/agent-card.json']

export type A2aVersion = '1.0' | '0.3'

/** Where to post, best version first; never empty. */
export type CardEndpoints = readonly { url: string; version: A2aVersion }[]

/** `skills`: as they came. */
export type Card = { kind: 'card'; endpoints: CardEndpoints; skills: unknown }

type CardOutcome = Card | { kind: 'none' } | CallFailure

/** Beside the agent url first, at the root of its host last. */
function cardUrls(url: string): string[] {
  const { origin, pathname } = new URL(url)
  if (pathname.endsWith('.json')) return [url]
  const base = `${origin}${pathname.replace(/\/+$/, '')}`
  const bases = base === origin ? [origin] : [base, origin]
  return bases.flatMap((each) => PATHS.map((path) => `${each}/${path}`))
}

function versionOf(text: unknown): A2aVersion | undefined {
  if (typeof text !== 'string') return undefined
  if (text.startsWith('1.')) return '1.0'
  return text.startsWith('0.') ? '0.3' : undefined
}

/** The url a card names, or ours where the card names another site (an address behind its proxy, or a trap). */
function postUrl(named: unknown, agentUrl: string): string {
  if (typeof named !== 'string' || !URL.canParse(named, agentUrl)) return agentUrl
  const url = new URL(named, agentUrl)
  return sameSite(url, new URL(agentUrl)) ? url.href : agentUrl
}

/** Undefined when the object is no card: any JSON may stand at a well-known path. */
export function readCard(card: unknown, agentUrl: string): CardEndpoints | undefined {
  if (!isRecord(card) || typeof card.name !== 'string') return undefined
  const interfaces = Array.isArray(card.supportedInterfaces) ? card.supportedInterfaces.filter(isRecord) : []
  const listed = interfaces.flatMap((each) => {
    const version = versionOf(each.protocolVersion)
    return version && each.protocolBinding === 'JSONRPC'
      ? [{ url: postUrl(each.url, agentUrl), version }]
      : []
  })
  const top = versionOf(card.protocolVersion) ?? '0.3'
  const whole = typeof card.url === 'string' ? [{ url: postUrl(card.url, agentUrl), version: top }] : []
  const all = [...listed, ...whole].sort((a, b) => b.version.localeCompare(a.version))
  return all.length > 0 ? all : undefined
}

/** `none` only when every place answered that it has no card; a failure says that this is not known. */
export async function findCard(send: Send, agentUrl: string, budget: Budget): Promise<CardOutcome> {
  const startedAt = Date.now()
  let failure: CallFailure | undefined
  for (const url of cardUrls(agentUrl)) {
    const reply = await send({
      url,
      headers: { accept: 'application/json' },
      timeoutMs: remaining(budget, startedAt, Date.now()).timeoutMs,
      maxBytes: MAX_CARD_BYTES,
      redirects: 'same-site',
      ...(budget.signal && { signal: budget.signal }),
    })
    if (reply.kind === 'failed') {
      if (reply.reason === 'too_large' || reply.reason === 'bad_redirect') continue
      return networkFailure(reply)
    }
    const card = reply.status === 200 ? tryParseJson(reply.body) : undefined
    const endpoints = readCard(card, agentUrl)
    if (endpoints) return { kind: 'card', endpoints, skills: isRecord(card) ? card.skills : undefined }
    failure ??= statusFailure(reply)
  }
  return failure
    ? callFailed(failure.reason, `agent card: ${failure.message}`, failure.retryAfterMs)
    : { kind: 'none' }
}
