/**
 * get_signals as the agents of the demo market answer it: the wholesale feed in pages, briefs, and exact lookup
 * (specification, "Operation get_signals"). Filters, destinations and countries are ignored, as some real
 * agents do (docs/protocol.md#how-agents-differ): a federation filters again.
 */
import { isRecord } from '../src/adcp/json.js'
import { createChecks } from '../src/adcp/schema.js'
import {
  RequestedId,
  RequestedRef,
  refFromLegacy,
  type SignalId,
  type SignalRef,
} from '../src/adcp/signal.js'
import { createRanking } from './brief.js'
import type { Market } from './market.js'
import { type Args, done, invalid, type Outcome } from './outcome.js'
import type { AgentId } from './parties.js'
import type { Profile } from './profiles.js'
import type { Card, Stock } from './stock.js'
import type { TaskBook } from './task-book.js'

/** The account that negotiated lower prices with the agents that price by account. */
export const GOLD_ACCOUNT = 'acct_demo_gold'

const check = createChecks()
const { conforms: isRef } = check<SignalRef>(RequestedRef)
const { conforms: isId } = check<SignalId>(RequestedId)

const MAX_PAGE = 100
const DEFAULT_PAGE = 50
// A brief looks at this many signals: an agent's inference has its limits, and a million rows take seconds to read.
const MAX_CONSIDERED = 5_000

export type Discovery = {
  getSignals(args: Args): Outcome
  /** From now on a brief is answered `submitted`, by a task that takes so long, ms; 0 ends it. */
  briefTakes(ms: number): void
}

export type DiscoveryOptions = {
  market: Market
  id: AgentId
  profile: Profile
  stock: Stock
  tasks: TaskBook
  now: () => number
}

function pageSize(args: Args): number | undefined {
  const pagination = isRecord(args.pagination) ? args.pagination : {}
  const asked = pagination.max_results ?? args.max_results ?? DEFAULT_PAGE
  if (typeof asked !== 'number' || !Number.isInteger(asked) || asked < 1) return undefined
  return Math.min(asked, MAX_PAGE)
}

/** References, canonical or legacy; what is not a reference is left out like one that is not found. */
function referencesIn(args: Args, profile: Profile): SignalRef[] | undefined {
  const canonical = profile.release === '3.0' ? undefined : args.signal_refs
  if (!Array.isArray(canonical) && !Array.isArray(args.signal_ids)) return undefined
  const refs = (Array.isArray(canonical) ? canonical : []).filter((ref) => isRef(ref))
  const legacy = (Array.isArray(args.signal_ids) ? args.signal_ids : []).filter((id) => isId(id))
  return [...refs, ...legacy.map((id) => refFromLegacy(id))]
}

function fieldsIn({ fields }: Args): string[] {
  return Array.isArray(fields) ? fields.filter((field) => typeof field === 'string') : []
}

export function createDiscovery({ market, id, profile, stock, tasks, now }: DiscoveryOptions): Discovery {
  const ranked = createRanking((position) => market.signal(stock.at(position)))
  let briefDelay = 0

  function cardOf(args: Args): Card {
    const account = isRecord(args.account) ? args.account.account_id : undefined
    return profile.accountPricing && account === GOLD_ACCOUNT ? 'gold' : 'public'
  }

  /** Which cache layer an answer belongs to; an agent of 3.0 knows none. */
  function layer(card: Card): Record<string, string> {
    if (profile.release === '3.0') return {}
    return { cache_scope: card === 'gold' ? 'account' : 'public', ...stock.tokens(card) }
  }

  const cursorAt = (position: number) => Buffer.from(`${id} ${position}`).toString('base64url')

  function positionIn(cursor: unknown): number | undefined {
    if (cursor === undefined || cursor === null) return 0
    const [issuer, position] = Buffer.from(String(cursor), 'base64url').toString().split(' ')
    return issuer === id && /^\d{1,9}$/.test(position ?? '') ? Number(position) : undefined
  }

  function wholesale(args: Args): Outcome {
    for (const field of ['signal_spec', 'signal_refs', 'signal_ids']) {
      if (args[field] !== undefined) return invalid(`${field} cannot be sent with wholesale.`, field)
    }
    if (args.if_pricing_version !== undefined && args.if_wholesale_feed_version === undefined) {
      return invalid('if_pricing_version needs if_wholesale_feed_version.', 'if_pricing_version')
    }
    const card = cardOf(args)
    const tokens = stock.tokens(card)
    const samePrices =
      args.if_pricing_version === undefined || args.if_pricing_version === tokens.pricing_version
    if (args.if_wholesale_feed_version === tokens.wholesale_feed_version && samePrices) {
      return done({ unchanged: true, ...layer(card), message: 'The feed has not changed.' })
    }
    const size = pageSize(args)
    if (size === undefined) return invalid('A page has 1 row or more.', 'pagination.max_results')
    const from = positionIn(isRecord(args.pagination) ? args.pagination.cursor : undefined)
    if (from === undefined) return invalid('The cursor is not one of this agent.', 'pagination.cursor')
    const total = stock.count()
    const fields = fieldsIn(args)
    const to = Math.min(from + size, total)
    const signals = Array.from({ length: Math.max(0, to - from) }, (_, offset) =>
      stock.row(stock.at(from + offset), card, fields),
    )
    return done({
      signals,
      ...layer(card),
      pagination: {
        has_more: to < total,
        ...(to < total ? { cursor: cursorAt(to) } : {}),
        total_count: total,
      },
      message: `Signals ${from + 1} to ${to} of ${total}.`,
    })
  }

  function briefResult(args: Args, size: number, refs: SignalRef[] | undefined) {
    const card = cardOf(args)
    const named = (refs ?? []).flatMap((ref) => stock.byRef(ref)?.index ?? [])
    const considered = Math.min(stock.count(), MAX_CONSIDERED)
    const found = typeof args.signal_spec === 'string' ? ranked(args.signal_spec, considered) : []
    const indices = [...new Set([...named, ...found.map(stock.at)])].slice(0, size)
    const signals = indices.map((index) => stock.row(index, card, fieldsIn(args)))
    const best = signals[0] ? ` Best match: ${signals[0].name}.` : ''
    return { signals, ...layer(card), message: `Found ${signals.length} signals.${best}` }
  }

  function brief(args: Args): Outcome {
    const refs = referencesIn(args, profile)
    if (typeof args.signal_spec !== 'string' && !refs)
      return invalid('A brief asks something.', 'signal_spec')
    if (args.push_notification_config !== undefined) {
      return invalid('This agent sends no notifications; poll get_task_status.', 'push_notification_config')
    }
    // An exact lookup gives all that was asked for, up to a page.
    const size = refs && args.signal_spec === undefined ? MAX_PAGE : pageSize(args)
    if (size === undefined) return invalid('A page has 1 row or more.', 'pagination.max_results')
    const result = () => briefResult(args, size, refs)
    if (briefDelay === 0 || args.signal_spec === undefined) return done(result())
    return done(tasks.submit('get_signals', now() + briefDelay, result))
  }

  return {
    getSignals: (args) =>
      args.discovery_mode === 'wholesale' && profile.modes.includes('wholesale')
        ? wholesale(args)
        : brief(args),
    briefTakes(ms) {
      briefDelay = ms
    },
  }
}
