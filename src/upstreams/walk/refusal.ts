/** An agent's error answer to get_signals as the failure of a reading: what was tried, what came back, and which kind it is. */
import { type AgentError, type CallFailure, callFailed } from '../agent/agent.js'
import { type Dialect, isCredentialError } from '../agent/dialect/dialect.js'
import { nameOf } from '../agent/dialect/signatures.js'
import type { UpstreamFailure } from '../agent/status.js'

const MOST_NAMED = 5

/** Codes that say only that the request is wrong: what is wrong with it stands in the field or the message. */
const OF_THE_REQUEST: ReadonlySet<string> = new Set(['INVALID_REQUEST', 'VALIDATION_ERROR', 'TOOL_ERROR'])

/** Whether it wants an account that it knows: frameworks say so in a field or a message of a validation error. */
function isAboutAccount({ code, field = '', message }: AgentError): boolean {
  if (code.startsWith('ACCOUNT_')) return true
  return OF_THE_REQUEST.has(code) && /\baccount\b/i.test(`${field} ${message}`)
}

function reasonOf(error: AgentError): UpstreamFailure {
  if (isCredentialError(error)) return 'unauthorized'
  if (isAboutAccount(error)) return 'account_needed'
  return error.code === 'RATE_LIMITED' ? 'rate_limited' : 'agent_error'
}

/** The failure that an error answer to get_signals is. */
export function refusalOf(error: AgentError): CallFailure {
  return callFailed(reasonOf(error), `get_signals: ${error.code}: ${error.message}`, error.retryAfterMs)
}

function listed(names: readonly string[]): string {
  const rest = names.length - MOST_NAMED
  return [...names.slice(0, MOST_NAMED), ...(rest > 0 ? [`${rest} more`] : [])].join(', ')
}

/** What the agent itself says that shows that it offers no signals; empty when nothing does. */
function otherOffers({ offers, protocol, tools }: Dialect): string[] {
  // The skills of an A2A card are named as its author likes.
  const lacks = protocol === 'mcp' && tools && tools.size > 0 && !tools.has(nameOf('get_signals', tools))
  return [
    ...(offers ? [`its capabilities name ${listed(offers)}, not signals`] : []),
    ...(lacks ? [`its list of tools has ${listed([...tools.keys()])}, not get_signals`] : []),
  ]
}

/** Failures that an agent has which was never meant to be asked for signals. */
const OF_OTHERS: ReadonlySet<UpstreamFailure> = new Set(['agent_error', 'account_needed', 'not_enumerable'])

/** A refusal by an agent that says itself that it offers something else. */
export function asOfAnother(failure: CallFailure, dialect: Dialect): CallFailure {
  const offers = OF_OTHERS.has(failure.reason) ? otherOffers(dialect) : []
  if (offers.length === 0) return failure
  return callFailed('not_signals', [failure.message, ...offers].join('; '), failure.retryAfterMs)
}
