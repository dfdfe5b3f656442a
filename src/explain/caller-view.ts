/**
 * What one caller sees of a signal in the feed (docs/decisions.md#callers). It applies the rules that answer the
 * caller's requests, one criterion at a time, so that it can name the criterion that excludes the signal.
 */

import type { SignalRef } from '../adcp/reference.js'
import { accountNamed, type CallerSettings, overlayName } from '../config/callers.js'
import type { Feed } from '../feed/feed.js'
import type { Reader, Selection } from '../feed/query.js'
import { destinationKey, matchesDestination } from '../merge/deployments.js'
import type { SignalExplanation } from './offers-of-signal.js'

const ANONYMOUS = 'anonymous'

export type ViewExplanation = {
  caller: string
  account?: string
  access: 'none' | 'without_prices' | 'full'
  /** Criteria of the request that, each alone, leave the signal out. */
  filtered_by: readonly string[]
  prices: 'shown' | 'hidden' | 'none'
  /** Live deployments, and whether this caller gets their activation keys. */
  activation_keys: readonly { destination: string; shown: boolean }[]
}

/** The caller as a reader of the feed; undefined when there is no such caller. */
export function readerOf(
  caller: string,
  callers: Pick<CallerSettings, 'anonymous' | 'keys'>,
): Reader | undefined {
  if (caller === ANONYMOUS) return { caller, visibility: 'metadata', grants: [] }
  const key = callers.keys.find(({ id }) => id === caller)
  return key && { caller, visibility: 'full', grants: key.destinations }
}

/** The feed's name of an account of a caller; undefined when the caller has no such account. */
export function accountOf(
  caller: string,
  account: string,
  { keys }: Pick<CallerSettings, 'anonymous' | 'keys'>,
): string | undefined {
  const key = keys.find(({ id }) => id === caller)
  return key && Object.hasOwn(key.accounts, account) ? overlayName(caller, account) : undefined
}

/** Each criterion of a request by itself. */
function criteria({ filters = {}, destinations, countries }: Selection): [name: string, Selection][] {
  return [
    ...Object.entries(filters).map(([name, value]): [string, Selection] => [
      `filters.${name}`,
      { filters: { [name]: value } },
    ]),
    ...(destinations ? [['destinations', { destinations }] as [string, Selection]] : []),
    ...(countries ? [['countries', { countries }] as [string, Selection]] : []),
  ]
}

type ViewInput = {
  feed: Pick<Feed, 'lookup' | 'prepared'>
  signal: SignalExplanation
  reader: Reader
  anonymous: CallerSettings['anonymous']
  selection: Selection
}

/** Looks at the whole feed for each criterion, in portions between which others are served. */
export async function explainView(input: ViewInput): Promise<ViewExplanation> {
  const { feed, signal, reader, anonymous, selection } = input
  const refs = [signal.ref as SignalRef]
  const isThere = async (asked: Selection) => {
    const at = await feed.prepared(asked, reader)
    const page = feed.lookup({ ...asked, refs }, reader, at)
    return page.kind === 'page' && page.count > 0
  }
  const isDenied = reader.caller === ANONYMOUS && anonymous === 'deny'
  const seesPrices = reader.visibility === 'full'
  const priced = signal.offers.some(({ fate, pricing_options }) => fate === 'stands' && pricing_options > 0)
  const granted = reader.grants.flatMap((grant) => destinationKey(grant) ?? [])
  const filteredBy: string[] = []
  for (const [name, asked] of criteria(selection)) if (!(await isThere(asked))) filteredBy.push(name)
  return {
    caller: reader.caller,
    ...(reader.account !== undefined && { account: accountNamed(reader.account)[1] }),
    access: isDenied ? 'none' : seesPrices ? 'full' : 'without_prices',
    filtered_by: filteredBy,
    prices: priced ? (seesPrices ? 'shown' : 'hidden') : 'none',
    activation_keys: signal.deployments
      .filter(({ is_live }) => is_live)
      .map(({ key }) => ({
        destination: key,
        shown: granted.some((grant) => matchesDestination(key, grant)),
      })),
  }
}
