/**
 * get_signals: the wholesale feed page by page, and exact lookup (specification, "Operation `get_signals`").
 * Brief discovery by `signal_spec` plugs in as `discover`.
 */
import type { AdcpError, Issue } from '../../adcp/error.js'
import { GetSignalsRequest } from '../../adcp/get-signals.js'
import { refFromLegacy, type SignalRef } from '../../adcp/reference.js'
import { invalidRequest } from '../../adcp/validation.js'
import type {
  LookupQuery,
  Page,
  Reader,
  Selection,
  Versions,
  WholesaleAnswer,
  WholesaleQuery,
} from '../../feed/query.js'
import type { UpstreamStatus } from '../../upstreams/status.js'
import { type AccountFound, type DeclaredAccounts, findAccount } from '../accounts.js'
import { incompleteOf } from '../incomplete.js'
import type { CallContext, Task, TaskAnswer } from '../task.js'

const DEFAULT_PAGE = 50 // specification, "Limits"
const MAX_PAGE = 100
const LOOKUPS = ['signal_spec', 'signal_refs', 'signal_ids'] as const
const TOKENS = ['if_wholesale_feed_version', 'if_pricing_version'] as const

export type SignalsFeed = {
  /** Undefined until the first snapshot is published; until then the others refuse. */
  current(): unknown
  wholesale(query: WholesaleQuery, reader: Reader, now: number): WholesaleAnswer
  lookup(query: LookupQuery, reader: Reader): Page | { kind: 'refused'; error: AdcpError }
}

/** Brief discovery; `reader` is the caller, its account checked. Rules and account are settled before it is asked. */
export type Discover = (
  input: GetSignalsRequest,
  reader: Reader,
  context: CallContext,
) => TaskAnswer | Promise<TaskAnswer>

export type GetSignalsOptions = {
  feed: SignalsFeed
  upstreams: { statuses(): readonly UpstreamStatus[] }
  discover?: Discover
  declaredAccounts?: DeclaredAccounts
}

function forbidden(names: readonly string[], input: object, message: string): Issue[] {
  return names
    .filter((name) => (input as Record<string, unknown>)[name] !== undefined)
    .map((name) => ({ pointer: `/${name}`, message, keyword: 'not' }))
}

/** The rules between fields (specification, "Errors", "Operation by combination"). */
function violations(input: GetSignalsRequest): Issue[] {
  const pricingAlone =
    input.if_pricing_version !== undefined && input.if_wholesale_feed_version === undefined
      ? [
          {
            pointer: '/if_pricing_version',
            message: 'must be sent together with if_wholesale_feed_version',
            keyword: 'dependencies',
          },
        ]
      : []
  if (input.discovery_mode === 'wholesale') {
    return [...forbidden(LOOKUPS, input, 'must not be sent in wholesale mode'), ...pricingAlone]
  }
  const nothingAsked = LOOKUPS.every((name) => input[name] === undefined)
    ? [
        {
          pointer: '/signal_spec',
          message: 'is required in brief mode when signal_refs is absent',
          keyword: 'required',
        },
      ]
    : []
  return [...forbidden(TOKENS, input, 'is only valid when discovery_mode is wholesale'), ...nothingAsked]
}

function pageSize({ pagination, max_results: legacy }: GetSignalsRequest): number {
  return Math.min(MAX_PAGE, pagination?.max_results ?? legacy ?? DEFAULT_PAGE)
}

/** Spreads stand last: with properties after them each object would get a hidden class of its own (call-context.ts). */
function selectionOf({ filters, destinations, countries, fields }: GetSignalsRequest): Selection {
  return {
    ...(filters && { filters }),
    ...(destinations && { destinations }),
    ...(countries && { countries }),
    ...(fields && { fields }),
  }
}

function wholesaleQuery(input: GetSignalsRequest): WholesaleQuery {
  const { pagination, if_wholesale_feed_version: feed, if_pricing_version: pricing } = input
  return {
    maxResults: pageSize(input),
    ...(pagination?.cursor !== undefined && { cursor: pagination.cursor }),
    ...(feed !== undefined && { ifFeedVersion: feed }),
    ...(pricing !== undefined && { ifPricingVersion: pricing }),
    ...selectionOf(input),
  }
}

function refsOf({ signal_refs = [], signal_ids = [] }: GetSignalsRequest): SignalRef[] {
  return [...signal_refs, ...signal_ids.map(refFromLegacy)]
}

function versionFields({ cacheScope, feedVersion, pricingVersion }: Versions) {
  return {
    cache_scope: cacheScope,
    wholesale_feed_version: feedVersion,
    pricing_version: pricingVersion,
  }
}

function pageMessage(page: Page, reader: Reader): string {
  if (page.total === 0) return 'No signal matches.'
  const prices = reader.visibility === 'metadata' ? ' Prices and activation keys need credentials.' : ''
  const more = page.cursor ? ' Send pagination.cursor for the next page.' : ''
  return `${page.count} of ${page.total} signals.${more}${prices}`
}

function lookupMessage(page: Page, asked: number, reader: Reader): string {
  const prices = reader.visibility === 'metadata' ? ' Prices and activation keys need credentials.' : ''
  return `${page.count} of the ${asked} signals asked for were found.${prices}`
}

function refused(error: AdcpError): TaskAnswer {
  return { kind: 'refused', error }
}

export function getSignals(options: GetSignalsOptions): Task<typeof GetSignalsRequest> {
  const { feed, upstreams, discover, declaredAccounts } = options

  function wholesale(input: GetSignalsRequest, reader: Reader, now: number): TaskAnswer {
    const answer = feed.wholesale(wholesaleQuery(input), reader, now)
    if (answer.kind === 'refused') return answer
    const incomplete = incompleteOf(upstreams.statuses(), 'wholesale_feed', now)
    if (answer.kind === 'unchanged') {
      const message = 'Unchanged: your copy is current.'
      return { kind: 'answer', message, fields: { unchanged: true, incomplete, ...versionFields(answer) } }
    }
    const pagination = {
      has_more: answer.cursor !== undefined,
      cursor: answer.cursor,
      total_count: answer.total,
    }
    return {
      kind: 'answer',
      message: pageMessage(answer, reader),
      fields: { pagination, incomplete, ...versionFields(answer) },
      rows: { field: 'signals', parts: answer.rows },
      warnings: answer.warnings,
    }
  }

  function lookup(input: GetSignalsRequest, reader: Reader, now: number): TaskAnswer {
    const refs = refsOf(input)
    const page = feed.lookup({ refs, ...selectionOf(input) }, reader)
    if (page.kind === 'refused') return page
    return {
      kind: 'answer',
      message: lookupMessage(page, refs.length, reader),
      fields: { incomplete: incompleteOf(upstreams.statuses(), 'signals', now), ...versionFields(page) },
      rows: { field: 'signals', parts: page.rows },
      warnings: page.warnings,
    }
  }

  function answer(input: GetSignalsRequest, reader: Reader, context: CallContext) {
    if (input.discovery_mode === 'wholesale') return wholesale(input, reader, context.now)
    if (input.signal_spec === undefined && input.push_notification_config === undefined) {
      return lookup(input, reader, context.now)
    }
    if (discover) return discover(input, reader, context)
    const pointer = input.signal_spec === undefined ? '/push_notification_config' : '/signal_spec'
    const message = 'cannot be honored by this agent: it answers exact lookups and the wholesale feed'
    return refused(invalidRequest([{ pointer, message, keyword: 'not' }]))
  }

  function handle(input: GetSignalsRequest, context: CallContext): TaskAnswer | Promise<TaskAnswer> {
    const broken = violations(input)
    if (broken.length > 0) return refused(invalidRequest(broken))
    const { caller } = context
    const reader: Reader = { caller: caller.id, visibility: caller.visibility, grants: caller.destinations }
    if (input.account === undefined) return answer(input, reader, context)
    const seen = (found: AccountFound) => {
      if (found.kind === 'refused') return found
      return answer(
        input,
        { ...(found.overlay !== undefined && { account: found.overlay }), ...reader },
        context,
      )
    }
    const found = findAccount(caller, input.account, declaredAccounts)
    return found instanceof Promise ? found.then(seen) : seen(found)
  }

  return {
    name: 'get_signals',
    title: 'Discover signals',
    description:
      'Finds audience and contextual targeting signals, with who sells them, where each can be activated, what it ' +
      'covers and what it costs. To copy or enumerate everything, send discovery_mode "wholesale" with ' +
      'pagination.max_results (at most 100) and follow pagination.cursor until has_more is false; keep ' +
      'wholesale_feed_version and send it as if_wholesale_feed_version next time: an unchanged feed answers at once ' +
      'without rows. To look signals up, send signal_refs. ' +
      (discover
        ? 'To search, send signal_spec in plain words; signal_refs with it refines an earlier result. '
        : '') +
      'Narrow with filters, destinations and countries; ask for definition details with fields. ' +
      'Use signal_agent_segment_id of a signal, unchanged, in activate_signal.',
    request: GetSignalsRequest,
    mutating: false,
    handle,
  }
}
