/**
 * Finds out which transport an agent speaks when the configuration does not say (docs/protocol.md#mcp, #a2a). Only an
 * answer decides: a refused credential, a server error or a timeout says nothing about the transport, and is not
 * remembered.
 */

import {
  type Agent,
  type AgentOptions,
  type Budget,
  type CallFailure,
  callFailed,
  remaining,
} from '../agent.js'
import type { Protocol } from '../status.js'
import { createA2aAgent } from './a2a.js'
import { findCard } from './card.js'
import { createMcpAgent } from './mcp.js'

type ProbeOutcome = { kind: 'found'; agent: Agent } | CallFailure

type Attempt = ProbeOutcome | { kind: 'refused'; message: string }

async function tryMcp(options: AgentOptions, budget: Budget): Promise<Attempt> {
  const agent = createMcpAgent(options)
  const opened = await agent.open(budget)
  return opened.kind === 'open' ? { kind: 'found', agent } : opened
}

async function tryA2a(options: AgentOptions, budget: Budget): Promise<Attempt> {
  const card = await findCard(options.send, options.url, budget)
  if (card.kind === 'none') return { kind: 'refused', message: 'no agent card was found' }
  if (card.kind === 'failed') return card
  return { kind: 'found', agent: createA2aAgent({ ...options, card }) }
}

function looksLikeA2a(url: string): boolean {
  const { pathname } = new URL(url)
  return /\/a2a\/?$/i.test(pathname) || pathname.endsWith('.json')
}

/** An agent ready to be called. With `protocol` set nothing is sent: the operator's word is enough. */
export async function probe(
  options: AgentOptions,
  protocol: Protocol | undefined,
  budget: Budget,
): Promise<ProbeOutcome> {
  if (protocol === 'mcp') return { kind: 'found', agent: createMcpAgent(options) }
  if (protocol === 'a2a') return { kind: 'found', agent: createA2aAgent(options) }
  const startedAt = Date.now()
  const attempts = looksLikeA2a(options.url) ? [tryA2a, tryMcp] : [tryMcp, tryA2a]
  const refusals: string[] = []
  for (const attempt of attempts) {
    const outcome = await attempt(options, remaining(budget, startedAt, Date.now()))
    if (outcome.kind !== 'refused') return outcome
    refusals.push(outcome.message)
  }
  return callFailed('not_an_agent', refusals.join('; '))
}
